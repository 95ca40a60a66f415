// A rank's part of the sums of what all ranks have in each tensor's place: of n equal parts of it, one behind
// the other, rank r gets the r-th. In the order of ranks where all_reduce adds in it. It is no op of a model,
// so no gradient flows through it.
#include "ops/op.h"

namespace hydrac::ops {

namespace {

// Each rank sends all parts but its own.
Cost reduce_scatter_cost(const ir::Graph& graph, const ir::Node& node) {
  const auto ranks = static_cast<double>(node.integer("ranks"));
  Cost cost;
  for (const ir::Use use : node.inputs) {
    const ir::Value& tensor = graph.value(use);
    const auto elements = static_cast<double>(element_count(tensor.shape)) * (ranks - 1) / ranks;
    cost.flop += elements;
    cost.bytes += elements * static_cast<double>(size_of(tensor.dtype));
  }
  return cost;
}

}  // namespace

extern const OpInfo kReduceScatter{.op = ir::Op::reduce_scatter,
                                   .formula = "part = the rank's part of the sum of all ranks' x",
                                   .inputs = {"x"},
                                   .outputs = {"part"},
                                   .cost = reduce_scatter_cost};

}  // namespace hydrac::ops
