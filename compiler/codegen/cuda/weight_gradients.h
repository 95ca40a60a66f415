// Weight gradients that one kernel computes together, from cuda/matmul/weight_gradients.cuh.
#pragma once
#include "codegen/cuda/kernel.h"
#include "targets/target.h"

namespace hydrac::codegen {

// `node`: a "weight_gradients" that the kernel supports.
CudaKernels weight_gradients_kernel(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

}  // namespace hydrac::codegen
