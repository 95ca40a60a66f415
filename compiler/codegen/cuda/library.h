// CUDA kernels that come from hand-written templates (templates/cuda/): each is a small kernel that binds a
// template to the shapes and strides of one node.
#pragma once
#include "codegen/cuda/kernel.h"
#include "cuda/attention/geometry.h"
#include "targets/target.h"

namespace hydrac::codegen {

// `node` is attention, attention_backward or embedding_backward (whose last input is the order of the
// tokens). `tiles`: the tiles that the spec asks for in attention's kernels.
CudaKernels cuda_library_kernels(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu,
                                 const cuda::AttentionTiles& tiles = {});

}  // namespace hydrac::codegen
