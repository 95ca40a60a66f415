// CMakeLists.txt of an emitted program.
#pragma once
#include <string>
#include <vector>

#include "emit/emit.h"
#include "emit/settings.h"

namespace hydrac::emit {

// `sources`: the program's source files, sorted.
std::string cmake_lists(const driver::Compiled& compiled, DataKind data, const Origin& origin,
                        const std::vector<std::string>& sources);

}  // namespace hydrac::emit
