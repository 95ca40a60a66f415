// The kernels of ops/row_history.cpp, for every target.
#pragma once
#include "codegen/cuda/kernel.h"
#include "codegen/kernel_source.h"
#include "ir/graph.h"

namespace hydrac::codegen {

// The kernel of a history_append or a history_window.
CpuKernel cpu_row_history(const ir::Graph& graph, const ir::Node& node);
CudaKernels cuda_row_history(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu);

}  // namespace hydrac::codegen
