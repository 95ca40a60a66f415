// Tables about a compiled program that several verbs print.
#pragma once
#include <map>
#include <string>

#include "driver/compile.h"

namespace hydrac::cli {

// The arena's bytes, all of them.
std::map<ir::Role, int64_t> bytes_by_role(const driver::Compiled& compiled);

// How the arena's bytes are used, one line a role, and what several ranks need and exchange; every line
// starts with `prefix`.
std::string memory_summary(const driver::Compiled& compiled, const std::string& prefix);

// Every call of every function with kernel, shape, flop and bytes.
std::string call_table(const driver::Compiled& compiled);

// The arena by offset: every tensor with its place, size, and when it is alive.
std::string memory_map(const driver::Compiled& compiled);

std::string decisions(const driver::Compiled& compiled);

}  // namespace hydrac::cli
