// A copy of the rank's part of each tensor: of n equal parts, one behind the other, rank r's is the r-th.
// Attribute tensor: r counts the ranks that share layers. It is no op of a model, so no gradient flows
// through it.
#include "ops/op.h"

namespace hydrac::ops {

namespace {

Cost own_part_cost(const ir::Graph& graph, const ir::Node& node) {
  Cost cost;
  for (const ir::Use use : node.outputs) {
    const ir::Value& part = graph.value(use);
    cost.bytes +=
        2 * static_cast<double>(element_count(part.shape)) * static_cast<double>(size_of(part.dtype));
  }
  return cost;
}

}  // namespace

extern const OpInfo kOwnPart{.op = ir::Op::own_part,
                             .formula = "part = the rank's part of x",
                             .inputs = {"x"},
                             .outputs = {"part"},
                             .cost = own_part_cost};

}  // namespace hydrac::ops
