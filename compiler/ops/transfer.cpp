// Copies a tensor between the GPU's memory and the host's. It is no op of a model, so no gradient flows
// through it.
#include "ops/op.h"

namespace hydrac::ops {

namespace {

Cost transfer_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& tensor = graph.value(node.outputs[0]);
  return {.bytes = static_cast<double>(element_count(tensor.shape) * size_of(tensor.dtype))};
}

void transfer_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  out[0] = in[0];
}

}  // namespace

extern const OpInfo kTransfer{.op = ir::Op::transfer,
                              .formula = "y = x",
                              .inputs = {"x"},
                              .outputs = {"y"},
                              .cost = transfer_cost,
                              .reference = transfer_reference};

}  // namespace hydrac::ops
