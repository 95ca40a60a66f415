// Small questions about who reads and writes what, shared by passes.
#pragma once
#include <functional>
#include <vector>

#include "ir/graph.h"

namespace hydrac::passes {

// Calls fn(region, node, use, is_output) for every use in the graph, in program order.
using UseVisitor = std::function<void(const ir::Region&, const ir::Node&, ir::Use, bool)>;
void for_each_use(const ir::Graph& graph, const UseVisitor& fn);

// True if two uses may share memory in one iteration of a region. Exact for slots, for parts of a pack and
// for parts of a token's row; anything else that lies in the same storage is taken to overlap.
bool may_overlap(const ir::Graph& graph, ir::Use a, ir::Use b);

// True if one of `uses` may share memory with `use`, as above.
bool touches(const ir::Graph& graph, const std::vector<ir::Use>& uses, ir::Use use);

// In a "fused" node, an operand that is both read and written (an optimizer's parameter) becomes one operand,
// not two.
void unify_operands(ir::Node& node);

}  // namespace hydrac::passes
