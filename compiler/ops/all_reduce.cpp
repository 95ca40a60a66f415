// Tensors become the sums of what all ranks have in their place, in the order of ranks where the target says
// so (the cpu's does), or with "largest" the largest numbers. In place: inputs are the outputs. It is no op
// of a model, so no gradient flows through it.
#include <algorithm>

#include "ops/op.h"

namespace hydrac::ops {

namespace {

// Bytes that a rank sends and receives over all ranks' wires, where each adds up its part of the tensor and
// gives the sum to the others: 2 (n - 1) / n of the tensor each way, counted once.
Cost all_reduce_cost(const ir::Graph& graph, const ir::Node& node) {
  const auto ranks = static_cast<double>(node.integer("ranks"));
  Cost cost;
  for (const ir::Use use : node.inputs) {
    const ir::Value& tensor = graph.value(use);
    const auto elements = static_cast<double>(element_count(tensor.shape));
    cost.flop += elements * (ranks - 1) / ranks;
    cost.bytes += 2 * (ranks - 1) / ranks * elements * static_cast<double>(size_of(tensor.dtype));
  }
  return cost;
}

// Inputs are the ranks' tensors.
void all_reduce_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const bool largest = node.optional_flag("largest");
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    out[0].data[i] = largest ? in[0].data[i] : 0;
    for (const Tensor64& rank : in)
      out[0].data[i] = largest ? std::max(out[0].data[i], rank.data[i]) : out[0].data[i] + rank.data[i];
  }
}

}  // namespace

extern const OpInfo kAllReduce{.op = ir::Op::all_reduce,
                               .formula = "x = the sum of all ranks' x",
                               .inputs = {"x"},
                               .outputs = {"x"},
                               .cost = all_reduce_cost,
                               .reference = all_reduce_reference};

}  // namespace hydrac::ops
