// Output of `check --json` and `explain --json`: docs/json.md describes it.
#pragma once
#include <string>

#include "driver/compile.h"
#include "driver/memory_limit.h"

namespace hydrac::cli {

// Both are one JSON object over several lines. `limit`: of the memory.
std::string check_json(const driver::Compiled& compiled, const driver::MemoryLimit& limit);
std::string explain_json(const driver::Compiled& compiled, const driver::MemoryLimit& limit);

}  // namespace hydrac::cli
