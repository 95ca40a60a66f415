// What generated kernels take of a multiprocessor, by NVRTC and its assembler: no GPU needed.
#pragma once
#include <string>
#include <vector>

#include "targets/device_code/nvrtc.h"

namespace hydrac::test {

// Compiles as the cuda target does, with the templates of the source tree. Throws CompileError.
std::vector<device_code::KernelResources> resources_of(const std::string& source, int capability);

// The same source as PTX.
std::string ptx_of(const std::string& source, int capability);

// One line a kernel: registers, spilled bytes, static shared memory.
std::string to_table(const std::vector<device_code::KernelResources>& kernels);

}  // namespace hydrac::test
