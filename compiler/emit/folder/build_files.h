// Build and test files of an emitted program: CMakeLists.txt, and the script that starts its test as several
// ranks.
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

// For a program of several ranks: a launcher for its smoke test, if there is no other.
inline constexpr const char* kRanksScript = "test/ranks.sh";
std::string ranks_script(const Origin& origin);

}  // namespace hydrac::emit
