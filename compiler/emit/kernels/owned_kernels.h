// Owned kernels: files of an emitted program that a team has taken over. A line `// hydrac: keep` marks one;
// hydrac then leaves it as it is, and checks that it still defines what the program calls.
#pragma once
#include <string>

#include "emit/emit.h"

namespace hydrac::emit {

inline constexpr const char* kKeepLine = "// hydrac: keep";

// True of a file with kKeepLine among its lines, and of the owner's hooks.
bool is_kept(const std::string& name, const std::string& text);

// Why the kept file `name` cannot stand in for the one of `files`: a function whose parameters have other
// types than the declaration in kernels/kernels.h or hooks.h, or that is not there, both written out; a file
// that neither declares. "" where it can. Names of parameters may differ.
std::string obstacle_to_keep(const std::string& name, const std::string& text, const Files& files);

}  // namespace hydrac::emit
