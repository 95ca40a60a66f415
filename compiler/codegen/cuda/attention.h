// Attention's kernels as CUDA text, over the templates of cuda/attention.
#pragma once
#include "codegen/cuda/kernel.h"
#include "cuda/attention/geometry.h"
#include "ir/graph.h"
#include "targets/target.h"

namespace hydrac::codegen {

// Kernels of an "attention" node. `tiles`: the requested ones, without a cuda::tile_obstacle().
CudaKernels cuda_attention_forward(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                                   const cuda::AttentionTiles& tiles);

// Kernels of an "attention_backward" node. Inputs: d_out, out, lse, then the forward's. Outputs: d_q, d_k,
// d_v, and optionally their sums over all tokens.
CudaKernels cuda_attention_backward(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                                    const cuda::AttentionTiles& tiles);

}  // namespace hydrac::codegen
