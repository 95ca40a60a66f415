// A Body as a C++ function: rows in parallel with OpenMP, columns in loops that compilers vectorize.
//
// Results do not depend on the number of threads: a row is computed by one thread, and sums over rows go
// through kRowBlocks partial sums, each over its own rows in order, added in order at the end.
#pragma once
#include "codegen/kernel_source.h"

namespace hydrac::codegen {

inline constexpr int kRowBlocks = 32;

CpuKernel cpu_kernel(const ir::Graph& graph, const ir::Node& fused);

}  // namespace hydrac::codegen
