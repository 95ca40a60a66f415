// What `check --json` and `explain --json` print: docs/json.md describes it.
#pragma once
#include <string>

#include "driver/compile.h"

namespace hydrac::cli {

// Both are one JSON object over several lines. `options`: those the program was compiled with.
std::string check_json(const driver::Compiled& compiled, const driver::CompileOptions& options);
std::string explain_json(const driver::Compiled& compiled, const driver::CompileOptions& options);

}  // namespace hydrac::cli
