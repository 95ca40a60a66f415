// A program's kernels for the cpu beside the interpreter, on small data.
#pragma once
#include "targets/cpu/jit.h"
#include "targets/trial/trials.h"

namespace hydrac::targets {

Tried try_kernels(const ir::Graph& graph, const program::Program& program, const KernelLibrary& library);

}  // namespace hydrac::targets
