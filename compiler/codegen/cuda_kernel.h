// CUDA kernels as text, and what their callers must pass.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "codegen/kernel_source.h"
#include "ir/graph.h"
#include "program/program.h"
#include "targets/target.h"

namespace hydrac::codegen {

// One-dimensional. `shared_bytes` is dynamic shared memory. Numbers that a kernel and its launch have in
// common are constants of a namespace before the kernel, @KERNEL@_sizes: kThreads and, where it is not 0,
// kSharedBytes, and what grid_text and grid_of_rows name.
struct CudaLaunch {
  int64_t grid = 1;
  int block = 128;
  int64_t shared_bytes = 0;
  std::string grid_text = {};  // as an expression of dimensions and of these constants
  // Where the kernel's text is the same for other numbers of rows: how many these are, as an expression of
  // dimensions, and the grid as an expression of "rows".
  std::string rows = {}, grid_of_rows = {};
  // What the text relies on, as conditions on dimensions and these constants, and on `rows` where `rows` is
  // not empty.
  std::set<std::string> bounds = {};
};

struct CudaKernel {
  std::string name;     // wanted; the program makes it unique
  std::string comment;  // what it computes, over which rows and columns
  // `extern "C" __global__ void __launch_bounds__(..) @KERNEL@(...) {...}`, with kNamePlaceholder where the
  // kernel's name belongs.
  std::string text;
  std::string header;  // the file of templates/ that the text binds to constants, if it does
  std::vector<program::MatrixMap> maps = {};  // of the first arguments, which are tensor maps
  std::vector<ir::Use> arguments;             // the tensors, in the order of the parameters
  std::vector<std::string> parameters;        // what the text calls them
  bool takes_workspace = false;               // then `float* workspace` follows the tensors
  bool takes_layer = false;                   // then `int layer` is last
  CudaLaunch launch;
};

// Whether kernels for this GPU wait for the kernel before them, so that they may be launched while it runs
// (cuda/previous_kernel.cuh).
inline bool waits_for_previous(const targets::Target& gpu) {
  return gpu.capability >= 90;
}

// What the text of every kernel begins with, behind its parameters. Pointers to what the kernel before wrote
// must not be `const __restrict__`: the compiler may then load before the wait.
inline std::string opening_text(const targets::Target& gpu) {
  return waits_for_previous(gpu) ? "  wait_for_previous_kernel();\n  launch_next_kernel();\n" : "";
}

// That namespace with its lines, and how a kernel of the text says that it uses it.
inline std::string sizes_namespace(const std::string& lines) {
  return fmt::format("namespace {0}_sizes {{\n{1}}}  // namespace {0}_sizes\n\n", kNamePlaceholder, lines);
}
inline std::string using_sizes() {
  return fmt::format("  using namespace {}_sizes;\n", kNamePlaceholder);
}
// "kThreads" as what stands before the kernel's name sees it.
inline std::string of_sizes(const std::string& constant) {
  return fmt::format("{}_sizes::{}", kNamePlaceholder, constant);
}
// The constants of a launch whose numbers are known, as lines.
inline std::string launch_constants(const CudaLaunch& launch) {
  std::string lines = fmt::format(
      "constexpr int kBlocks = {};  // of the grid\nconstexpr int kThreads = {};  // of a block\n",
      launch.grid, launch.block);
  if (launch.shared_bytes > 0)
    lines += fmt::format("constexpr int kSharedBytes = {};  // of a block\n", launch.shared_bytes);
  return lines;
}

// Kernels that run one after another on one stream, and the device memory they share meanwhile.
struct CudaKernels {
  std::vector<CudaKernel> kernels;
  int64_t workspace_bytes = 0;
  size_t main = 0;  // the kernel that does nearly all of the work
};

}  // namespace hydrac::codegen
