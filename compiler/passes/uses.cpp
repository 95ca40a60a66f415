#include "passes/uses.h"

namespace hydrac::passes {

void for_each_use(const ir::Graph& graph, const UseVisitor& fn) {
  for (const ir::Function& function : graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        for (ir::Use use : node.inputs) {
          if (use.value != ir::kNoValue) fn(region, node, use, false);
        }
        for (ir::Use use : node.outputs) fn(region, node, use, true);
      }
    }
  }
}

bool may_overlap(const ir::Graph& graph, ir::Use a, ir::Use b) {
  if (a.value == b.value) return a.slot == b.slot || a.slot.per_layer != b.slot.per_layer;
  if (storage_of(graph, a.value) != storage_of(graph, b.value)) return false;
  const ir::View x = resolved_view(graph, a.value), y = resolved_view(graph, b.value);
  // Parts of one packed slot: disjoint where neither contains the other's start, by construction of the layout pass.
  return x.offset == y.offset || a.slot.per_layer != b.slot.per_layer || x.slot_stride != y.slot_stride ||
         graph.value(a).shape.size() != graph.value(b).shape.size();
}

}  // namespace hydrac::passes
