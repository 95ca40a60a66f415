// Frozen matrices as 4-bit NormalFloat codes: `adapter.base: nf4`, the base of QLoRA (arXiv 2305.14314).
#pragma once
#include "ir/graph.h"

namespace hydrac::models {

// Whether the parameter is kept so where the base is: frozen, and a linear layer of a block.
bool is_nf4_matrix(const ir::Value& value);

// Needs "micro_step" differentiated. Adds the values that hold the codes of these matrices
// (ParameterInfo::nf4). A matrix's linear layers are quantized each by itself, as if each were a matrix.
void keep_as_nf4(ir::Graph& graph);

}  // namespace hydrac::models
