// The tensors of a compiled program under their names in a checkpoint, for any target that runs it.
#pragma once
#include <cstdint>
#include <vector>

#include "driver/compile.h"
#include "runtime/train/step_program.h"

namespace hydrac::targets {

// `arena`: the address of the program's memory; the tensors' addresses count from there.
std::vector<runtime::NamedTensor> parameter_tensors(const driver::Compiled& compiled, uint64_t arena);
// Values of role optimizer_state, under their names in the graph.
std::vector<runtime::NamedTensor> optimizer_tensors(const driver::Compiled& compiled, uint64_t arena);

}  // namespace hydrac::targets
