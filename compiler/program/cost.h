// Work of a node: floating-point operations, and bytes if every operand moves once (of a table only the
// gathered rows).
#pragma once
#include "ops/op.h"

namespace hydrac::program {

// True if matrix units do a node's work: a matmul, before and after passes, or attention by any
// implementation.
bool multiplies_matrices(const ir::Node& node);

// Fused nodes are counted from their body (an exp counts as one operation), library nodes by their op.
ops::Cost cost_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace hydrac::program
