// The kernels of a cache of keys and values, for the cpu.
#pragma once
#include "codegen/kernel_source.h"
#include "ir/graph.h"

namespace hydrac::codegen {

CpuKernel cpu_cache_append(const ir::Graph& graph, const ir::Node& node);
CpuKernel cpu_attention_decode(const ir::Graph& graph, const ir::Node& node, int threads);

}  // namespace hydrac::codegen
