// Work of a node: floating-point operations, and bytes if every operand moves once, of a table that is
// gathered from only what is.
#pragma once
#include "ops/op.h"

namespace hydrac::program {

// Fused nodes are counted from their body (an exp counts as one operation), library nodes by their op.
ops::Cost cost_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace hydrac::program
