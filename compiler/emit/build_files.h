// CMakeLists.txt of an emitted program.
#pragma once
#include <string>
#include <vector>

#include "emit/emit.h"
#include "emit/settings.h"

namespace hydrac::emit {

// `sources`: the program's source files, sorted; `uncontracted`: those of them whose products and sums must
// not become one operation (program::may_contract).
std::string cmake_lists(const driver::Compiled& compiled, DataKind data, const Origin& origin,
                        const std::vector<std::string>& sources,
                        const std::vector<std::string>& uncontracted);

}  // namespace hydrac::emit
