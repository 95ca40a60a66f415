// Moves rope of a new token's query and key into attention over the cache. That saves two kernels a layer of
// a few microseconds each, and a decode step's other kernels take little longer.
#include <fmt/format.h>

#include <algorithm>

#include "passes/passes.h"
#include "passes/uses.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

constexpr int64_t kColumns = 8;  // of a head in one thread of attention_decode

// The rope node whose result `use` is, or nullptr.
const Node* rope_of(const ir::Region& region, Use use) {
  const auto found = std::ranges::find_if(region.nodes, [&](const Node& node) {
    return node.op == ir::Op::rope && node.outputs[0] == use && !node.flag("inverse");
  });
  return found == region.nodes.end() ? nullptr : &*found;
}

// True if all layers turn whole heads by the same angles.
bool is_plain(const ir::Graph& graph, const Node& rope) {
  return !rope.attributes.contains("period") &&
         2 * graph.value(rope.inputs[1]).shape[1].size == graph.value(rope.outputs[0]).shape[3].size;
}

// True if nothing but matmuls writes it, so that rope would be a kernel of its own.
bool comes_from_matmuls(const ir::Graph& graph, const ir::Region& region, Use use) {
  return std::ranges::all_of(region.nodes, [&](const Node& node) {
    return node.op == ir::Op::gemm || node.op == ir::Op::linear || !touches(graph, node.outputs, use);
  });
}

bool can_rotate(const ir::Graph& graph, const ir::Region& region, const Node& decode, const Node& rope) {
  const bool halves = !rope.optional_flag("interleaved");
  return is_plain(graph, rope) && rope.inputs.size() == 4 && rope.inputs[3] == decode.inputs[3] &&
         (!halves || graph.value(rope.outputs[0]).shape[3].size % (2 * kColumns) == 0) &&
         comes_from_matmuls(graph, region, rope.inputs[0]);
}

bool rotate(const ir::Graph& graph, const ir::Region& region, Node& decode) {
  const Node *of_q = rope_of(region, decode.inputs[0]), *of_k = rope_of(region, decode.inputs[1]);
  if (!of_q || !of_k || !can_rotate(graph, region, decode, *of_q) ||
      !can_rotate(graph, region, decode, *of_k))
    return false;
  decode.attributes["interleaved"] = of_q->optional_flag("interleaved");
  decode.inputs[0] = of_q->inputs[0];
  decode.inputs[1] = of_k->inputs[0];
  decode.inputs.insert(decode.inputs.end(), {of_q->inputs[1], of_q->inputs[2]});
  return true;
}

}  // namespace

void rotate_in_decode(ir::Graph& graph, Log& log) {
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) {
      for (Node& node : region.nodes) {
        if (node.op == ir::Op::attention_decode && rotate(graph, region, node))
          log.push_back({"rope", fmt::format("{}.{}: attention turns the new token's query and key",
                                             function.name, region.name)});
      }
    }
  }
}

}  // namespace hydrac::passes
