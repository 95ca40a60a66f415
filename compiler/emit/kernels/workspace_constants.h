// The sizes of kernels' workspaces, which their launches assert to be enough.
#pragma once
#include <string>

#include "driver/compile.h"

namespace hydrac::emit {

// A constant for each such kernel, in kernels.h.
std::string workspace_constants(const driver::Compiled& compiled);

// The name of a kernel's, as its launch sees it.
std::string workspace_constant(const program::Kernel& kernel);

}  // namespace hydrac::emit
