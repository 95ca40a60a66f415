#include <stdexcept>

#include "passes/passes.h"

namespace hydrac::passes {

namespace {

// The region's first node with its slots further on, fixed ones or counted from the layer.
ir::Node first_node(const ir::Region& region, bool per_layer, int further) {
  ir::Node node = region.nodes.front();
  for (auto* uses : {&node.inputs, &node.outputs})
    for (ir::Use& use : *uses)
      if (use.value != ir::kNoValue) use.slot = {per_layer, use.slot.index + further};
  return node;
}

bool is_norm(const ir::Node& node) {
  return node.op == ir::Op::rmsnorm || node.op == ir::Op::layernorm;
}

// Norms of one stream, which a loop hands on from iteration to iteration.
bool rotates(const ir::Region& loop, const ir::Region& behind) {
  const ir::Node &norm = loop.nodes.front(), &last = behind.nodes.front();
  return loop.layers > 0 && is_norm(norm) && is_norm(last) && norm.outputs[0].value == last.outputs[0].value;
}

// The norm that each iteration ends with: the next one's, and behind the last one that of the region behind.
ir::Node end_of(const ir::Region& loop, const ir::Region& behind) {
  const ir::Node second = first_node(loop, true, 1), end = first_node(behind, true, 1 - loop.layers);
  if (loop.layers > 1 &&
      (second.inputs != end.inputs || second.outputs != end.outputs || second.attributes != end.attributes))
    throw std::logic_error(loop.name + " and " + behind.name + " begin with norms of other parameters");
  return end;
}

}  // namespace

void rotate_norms(ir::Graph& graph) {
  for (ir::Function& function : graph.functions) {
    std::vector<ir::Region>& regions = function.regions;
    for (size_t place = 1; place + 1 < regions.size(); ++place) {
      ir::Region &before = regions[place - 1], &loop = regions[place], &behind = regions[place + 1];
      if (!rotates(loop, behind)) continue;
      if (before.layers == 0) before.nodes.push_back(first_node(loop, false, 0));
      loop.nodes.push_back(end_of(loop, behind));
      loop.nodes.erase(loop.nodes.begin());
      if (behind.layers == 0) behind.nodes.erase(behind.nodes.begin());
    }
    std::erase_if(regions, [](const ir::Region& region) { return region.nodes.empty(); });
  }
}

}  // namespace hydrac::passes
