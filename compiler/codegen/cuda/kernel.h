// CUDA kernels as code, and what their callers must pass.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "codegen/kernel_source.h"
#include "ir/graph.h"
#include "program/program.h"
#include "targets/target.h"

namespace hydrac::codegen {

// One-dimensional. `shared_bytes` is dynamic shared memory. Numbers that a kernel and its launch share are
// constants of the namespace @KERNEL@_sizes before the kernel: kThreads, kSharedBytes (unless it is 0), and
// those that grid_text and grid_of_rows use.
struct CudaLaunch {
  int64_t grid = 1;
  int block = 128;
  int64_t shared_bytes = 0;
  Code grid_text = {};  // of dimensions and of these constants
  // If the kernel's text is the same for any number of rows: that number as text over dimensions, and the
  // grid as text over "rows".
  Code rows = {}, grid_of_rows = {};
  // Conditions that the text relies on, over dimensions and these constants, and over `rows` unless `rows` is
  // empty.
  std::set<std::string> bounds = {};
};

struct CudaKernel : KernelSource {
  CudaKernel() : KernelSource(kCudaDialect) {}

  std::vector<program::MatrixMap> maps = {};  // of the first arguments, which are tensor maps
  bool takes_workspace = false;               // then `float* workspace` follows the tensors
  CudaLaunch launch;
};

// True if kernels for this GPU wait for the kernel before them, so that they may be launched while it runs
// (cuda/previous_kernel.cuh).
inline bool waits_for_previous(const targets::Target& gpu) {
  return gpu.capability >= 90;
}

// How bounds name the bytes of the kernel's workspace.
inline constexpr const char* kWorkspaceBytes = "kWorkspaceBytes";
// The assertion of a launch that its workspace, whose size the layout of memory fixes, is large enough.
inline std::string fits_workspace(const Size& bytes) {
  return code("{} <= {}", bytes, kWorkspaceBytes).text;
}

// The first statements of every kernel. Pointers to results of the previous kernel must not be `const
// __restrict__`: the compiler may then load before the wait.
inline void open_body(KernelText& kernel, const targets::Target& gpu) {
  if (!waits_for_previous(gpu)) return;
  kernel.body.line("wait_for_previous_kernel();");
  kernel.body.line("launch_next_kernel();");
}

// Makes the constants before the kernel known in its body.
inline void use_sizes(KernelText& kernel) {
  kernel.body.line("using namespace {}_sizes;", kNamePlaceholder);
}
// "kThreads" as what stands before the kernel's name sees it.
inline std::string of_sizes(const std::string& constant) {
  return fmt::format("{}_sizes::{}", kNamePlaceholder, constant);
}
// All text before a kernel's name. `bounds`: launch bounds after the threads, such as ", 2". `cluster`: its
// blocks, "" for one.
inline std::string kernel_attributes(const std::string& bounds = "", const std::string& cluster = "") {
  return fmt::format("extern \"C\" __global__ void {}__launch_bounds__({}{}) ",
                     cluster.empty() ? "" : fmt::format("__cluster_dims__({}, 1, 1) ", cluster),
                     of_sizes("kThreads"), bounds);
}
// The constants of a launch whose numbers are known.
inline Block launch_constants(const CudaLaunch& launch) {
  Block constants;
  constants.line("constexpr int kBlocks = {};", launch.grid).comment = "of the grid";
  constants.line("constexpr int kThreads = {};", launch.block).comment = "of a block";
  if (launch.shared_bytes > 0)
    constants.line("constexpr int kSharedBytes = {};", launch.shared_bytes).comment = "of a block";
  return constants;
}

// Kernels that run one after another on one stream, and the device memory they share meanwhile.
struct CudaKernels {
  std::vector<CudaKernel> kernels;
  int64_t workspace_bytes = 0;
  size_t main = 0;  // the kernel that does nearly all of the work
};

}  // namespace hydrac::codegen
