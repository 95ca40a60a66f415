// A compiled program as source code that people check in, build ahead of time and review.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "runtime/app/train_run.h"

namespace hydrac::emit {

// Text by path relative to the emitted folder.
using Files = std::map<std::string, std::string>;

// A program's origin, for the first lines of its files.
struct Origin {
  std::string spec;                    // the spec file's name, without folders
  std::vector<std::string> overrides;  // "target=h200"
};

enum class Hooks {
  none,
  owned  // the step calls functions of the program's owner; hooks.h
};

// The same program gives the same bytes, wherever and whenever it is emitted.
Files emit(const driver::Compiled& compiled, const runtime::TrainSettings& settings, const Origin& origin,
           Hooks hooks = Hooks::none);

}  // namespace hydrac::emit
