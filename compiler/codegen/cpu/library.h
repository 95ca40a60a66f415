// Kernels that come from hand-written templates (templates/cpu/): each is a small function that binds a
// template to the shapes and strides of one node.
#pragma once
#include "codegen/kernel_source.h"

namespace hydrac::codegen {

// `node` is attention, attention_backward or embedding_backward. `threads`: the most threads that will run
// it.
CpuKernel cpu_library_kernel(const ir::Graph& graph, const ir::Node& node, int threads);

// Head widths that the attention templates take: multiples of 8 up to 256.
bool cpu_attention_supports(int64_t head_dim);

}  // namespace hydrac::codegen
