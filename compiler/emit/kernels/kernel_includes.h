// Headers that a file of generated kernels includes: those of what its text uses.
#pragma once
#include <string>
#include <vector>

#include "program/program.h"

namespace hydrac::emit {

// `first` is one of the file's kernels, which are alike in this, and `definitions` the text of all.
std::vector<std::string> kernel_includes(const program::Kernel& first, const std::string& definitions,
                                         bool cpu);

}  // namespace hydrac::emit
