// Facts about a compiled program that the runtime needs: its memory layout, parameter counts and model flop.
#pragma once
#include "driver/compile.h"
#include "runtime/program/layout.h"

namespace hydrac::targets {

// All elements of all parameters.
int64_t parameter_count(const driver::Compiled& compiled);
// Counts trained parameters only.
int64_t own_parameter_count(const driver::Compiled& compiled);  // that a rank has
int64_t trained_count(const driver::Compiled& compiled);

// How often matmuls multiply a token by a parameter: once for a matrix (each recursion of the mlp counts),
// never for an embedding that is only looked up. Model flop are counted by it.
int times_multiplied(const driver::Compiled& compiled, const ir::Value& parameter);

// Model flop of attention a trained token, forward and backward: three times the forward pass's two matmuls,
// over the keys that the mask lets a query see.
double attention_flop_per_target(const driver::Compiled& compiled);

runtime::ProgramLayout layout_of(const driver::Compiled& compiled);

}  // namespace hydrac::targets
