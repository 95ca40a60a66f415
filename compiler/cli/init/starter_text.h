// Texts that makers of starters (starter.cpp, starter_finetune.cpp) fill in.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cli/init/starter.h"
#include "spec/spec.h"

namespace hydrac::cli {

using Words = std::map<std::string, std::string>;  // what stands for @WORD@

std::string starter_file(const std::vector<StarterFile>& files, const std::string& path);

// The text of cli/init called `name` with every @WORD@ replaced by its value (unknown ones by nothing), and
// the comments after "@#" aligned in one column.
std::string fill_starter(const std::string& name, const Words& words);

// InputError with the diagnostics where the text is no spec.
spec::Spec load_starter(const std::string& name, const std::string& text,
                        const std::vector<std::string>& overrides);

// Makes the words those of a starter for this machine: it names no target, and so no precision of one.
void say_auto(Words& words);

// The file's name as a run's.
std::string run_name(const std::string& file);

// --task finetune.
Starter make_finetune_starter(const StarterRequest& request);

}  // namespace hydrac::cli
