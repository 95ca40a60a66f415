// A Body as CUDA C++, in one of three shapes that follow from the body.
//   - pointwise: a thread holds a vector or a few of the flat elements;
//   - rows with reductions: a warp or a block of threads holds a row in registers, wide rows are read again.
//   - column sums: a fixed number of blocks walks its rows in order and keeps its columns' sums in registers;
//     a second kernel adds the partial sums in a fixed order.
// The body of a "fused_matmul" is the epilogue of a matmul's kernel, cuda/matmul/matmul.cuh: eight
// columns of a row at a time, with column sums as above. Results are the same on every run: no atomics, and
// every sum has a fixed order.
#pragma once
#include "codegen/cuda/kernel.h"
#include "targets/target.h"

namespace hydrac::codegen {

// The dimension that kernels count the GPU's multiprocessors by.
inline constexpr const char* kMultiprocessors = "Multiprocessors";
// The dimensions that the kernels of a graph name.
std::vector<program::Dimension> cuda_dimensions(const ir::Graph& graph, const targets::Target& gpu);

// Kernels of a "fused" or a "fused_matmul" node.
CudaKernels cuda_body_kernels(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

// The second kernel of a "fused" node's column sums, after a kernel of another node has left `partials` rows
// of them, f32.
CudaKernel cuda_finishing_kernel(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                                 const Size& partials);

}  // namespace hydrac::codegen
