// A tensor becomes the sum of what all ranks have in its place, in their order. In place: its input is its
// output. It is no op of a model, so no gradient flows through it.
#include "ops/op.h"

namespace hydrac::ops {

namespace {

// What a rank sends and receives over all ranks' wires where each adds up its part of the tensor and gives
// the sum to the others: 2 (n - 1) / n of the tensor each way, counted once.
Cost all_reduce_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& tensor = graph.value(node.inputs[0]);
  const auto elements = static_cast<double>(element_count(tensor.shape));
  const auto ranks = static_cast<double>(node.integer("ranks"));
  return {elements * (ranks - 1) / ranks,
          2 * (ranks - 1) / ranks * elements * static_cast<double>(size_of(tensor.dtype))};
}

// Inputs are the ranks' tensors.
void all_reduce_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    out[0].data[i] = 0;
    for (const Tensor64& rank : in) out[0].data[i] += rank.data[i];
  }
}

}  // namespace

extern const OpInfo kAllReduce{.name = "all_reduce",
                               .formula = "x = the sum of all ranks' x, in the order of ranks",
                               .inputs = {"x"},
                               .outputs = {"x"},
                               .cost = all_reduce_cost,
                               .reference = all_reduce_reference};

}  // namespace hydrac::ops
