// The embedding's gradient as CUDA text, over the template of cuda/embedding_backward.cuh.
#pragma once
#include "codegen/cuda/kernel.h"
#include "ir/graph.h"
#include "targets/target.h"

namespace hydrac::codegen {

// Kernels of an "embedding_backward" node. Inputs: ids, d_y, order of the tokens.
CudaKernels cuda_embedding_backward(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

}  // namespace hydrac::codegen
