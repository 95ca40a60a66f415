// hooks.h and hooks.cpp of an emitted program (hooks.cu for a GPU): functions of the program's owner that a
// step calls. hydrac writes hooks.cpp once, with functions that do nothing, and never again.
#pragma once
#include <filesystem>
#include <string>

#include "driver/compile.h"
#include "emit/source_file.h"

namespace hydrac::emit {

inline constexpr const char* kHooksHeader = "hooks.h";

// The owner's file: "hooks.cpp" or "hooks.cu".
std::string hooks_file(bool on_cpu);
bool is_hooks_file(const std::string& name);
// True if the program in `folder` has hooks.
bool has_hooks(const std::filesystem::path& folder);

SourceFile hooks_header(const driver::Compiled& compiled);
SourceFile empty_hooks(const driver::Compiled& compiled);

}  // namespace hydrac::emit
