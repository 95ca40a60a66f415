// CMakeLists.txt of an emitted program.
#pragma once
#include <string>
#include <vector>

#include "emit/emit.h"
#include "emit/settings.h"

namespace hydrac::emit {

// `sources`: the program's source files, sorted; `generated`: those of them that hold generated kernels.
std::string cmake_lists(const driver::Compiled& compiled, DataKind data, const Origin& origin,
                        const std::vector<std::string>& sources, const std::vector<std::string>& generated);

}  // namespace hydrac::emit
