// Small questions about who reads and writes what, shared by passes.
#pragma once
#include <functional>

#include "ir/graph.h"

namespace hydrac::passes {

// Calls fn(region, node, use, is_output) for every use in the graph, in program order.
using UseVisitor = std::function<void(const ir::Region&, const ir::Node&, ir::Use, bool)>;
void for_each_use(const ir::Graph& graph, const UseVisitor& fn);

// Whether the storages of two uses may be the same memory in the same iteration of a region. Views of one value
// are taken to overlap unless they are the slots of different layers.
bool may_overlap(const ir::Graph& graph, ir::Use a, ir::Use b);

}  // namespace hydrac::passes
