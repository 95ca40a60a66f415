// Work of a node: floating-point operations, and bytes if every operand moves once, of a table that is
// gathered from only what is.
#pragma once
#include "ops/op.h"

namespace hydrac::program {

// True if matrix units do a node's work: a matmul, before passes and after them, or attention, whoever
// computes it.
bool multiplies_matrices(const ir::Node& node);

// Fused nodes are counted from their body (an exp counts as one operation), library nodes by their op.
ops::Cost cost_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace hydrac::program
