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
  // One block that holds a number and its probability of 16 tokens a thread; a few registers of 64 too few
  // cost nothing that could be measured.
  const bool holds_all_tokens = kernel.kernel.find("recursion_loss_backward") != std::string::npos;
  const std::int64_t most = holds_all_tokens ? 16 : 0;
  EXPECT_LE(kernel.spill_store_bytes, most) << where << kernel.kernel;
  EXPECT_LE(kernel.spill_load_bytes, most) << where << kernel.kernel;
}

// One line a kernel: registers, spilled bytes, static shared memory.
std::string to_table(const std::vector<device_code::KernelResources>& kernels);

}  // namespace hydrac::test
