// The kernels of generation with a cache of keys and values, for a GPU.
#pragma once
#include "codegen/cuda/kernel.h"

namespace hydrac::codegen {

CudaKernels cuda_cache_append(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);
CudaKernels cuda_attention_decode(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

CudaKernels cuda_top_logits(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

}  // namespace hydrac::codegen
