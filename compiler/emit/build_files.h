// CMakeLists.txt of an emitted program.
#pragma once
#include <string>
#include <vector>

#include "driver/compile.h"

namespace hydrac::emit {

// `sources`: the program's source files, sorted.
std::string cmake_lists(const driver::Compiled& compiled, const std::string& spec_file,
                        const std::vector<std::string>& sources);

}  // namespace hydrac::emit
