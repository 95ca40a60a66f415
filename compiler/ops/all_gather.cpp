// Tensors become the parts of all ranks, one behind the other in the order of ranks. It is no op of a model,
// so no gradient flows through it.
#include "ops/op.h"

namespace hydrac::ops {

namespace {

// Each rank's part goes to all others.
Cost all_gather_cost(const ir::Graph& graph, const ir::Node& node) {
  const auto ranks = static_cast<double>(node.integer("ranks"));
  Cost cost;
  for (const ir::Use use : node.inputs) {
    const ir::Value& part = graph.value(use);
    cost.bytes += (ranks - 1) * static_cast<double>(element_count(part.shape)) *
                  static_cast<double>(size_of(part.dtype));
  }
  return cost;
}

}  // namespace

extern const OpInfo kAllGather{.op = ir::Op::all_gather,
                               .formula = "x = all ranks' parts",
                               .inputs = {"part"},
                               .outputs = {"x"},
                               .cost = all_gather_cost};

}  // namespace hydrac::ops
