// What generated kernels take of a multiprocessor, by NVRTC and its assembler: no GPU needed.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "targets/device_code/nvrtc.h"
#include "tests/unit/support/needs_nvrtc.h"

namespace hydrac::test {

class CudaKernels : public NeedsNvrtc {};

// Compiles as the cuda target does, with the templates of the source tree. Throws CompileError.
std::vector<device_code::KernelResources> resources_of(const std::string& source, int capability);

// The same source as PTX.
std::string ptx_of(const std::string& source, int capability);

// `where`: what a failure names before the kernel.
inline void expect_no_spills(const device_code::KernelResources& kernel, const std::string& where = "") {
  EXPECT_EQ(kernel.spill_store_bytes, 0) << where << kernel.kernel;
  EXPECT_EQ(kernel.spill_load_bytes, 0) << where << kernel.kernel;
}

// One line a kernel: registers, spilled bytes, static shared memory.
std::string to_table(const std::vector<device_code::KernelResources>& kernels);

}  // namespace hydrac::test
