// From the lowered graph to a Program for the cpu target.
#pragma once
#include "program/program.h"

namespace hydrac::codegen {

// Generates the kernels of a graph whose nodes are fused or library nodes, and lists the calls. Kernels with
// the same text are one. Scratch memory that kernels need becomes values of the graph, so the memory plan
// must come after. `threads`: the most threads that will run it.
program::Program build_cpu_program(ir::Graph& graph, int threads);

// The C++ source of a Program's kernels: one translation unit that exports, for every kernel K,
//   extern "C" void K__launch(void* const* arguments, int layer, std::int64_t rows);
// that works on the first `rows` rows if K takes them, on all otherwise.
std::string cpu_source(const ir::Graph& graph, const program::Program& program);

}  // namespace hydrac::codegen
