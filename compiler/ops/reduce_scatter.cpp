// A rank's part of the sums of what all ranks have in each tensor's place: of n equal parts of it, one behind
// the other, rank r gets the r-th. In the order of ranks where all_reduce adds in it. It is no op of a model,
// except where ranks share layers (attribute tensor: of those ranks): all parts of the gradient are that of
// every rank's tensor.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/op.h"

namespace hydrac::ops {

Use sum_rows(RegionBuilder& b, Use x, ir::Shape part, int64_t ranks, const std::string& name) {
  return b.emit(ir::Op::reduce_scatter, {x}, name, std::move(part), {{"ranks", ranks}, {"tensor", true}});
}

namespace {

void reduce_scatter_gradient(Gradient& g, const ir::Node& node) {
  const Use dx = g.fresh(g.name_of(node.inputs[0]), g.shape(node.inputs[0]));
  if (g.value(node.inputs[0]).exact) g.exact(dx);
  g.emit_node(ir::Op::all_gather, {*g.of(node.outputs[0])}, {dx}, node.attributes);
  g.contribute(node.inputs[0], dx);
}

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

// Inputs are the ranks' tensors of one x, outputs what becomes of their parts.
void reduce_scatter_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const size_t count = out[0].data.size();
  for (size_t rank = 0; rank < out.size(); ++rank) {
    for (size_t i = 0; i < count; ++i) {
      out[rank].data[i] = 0;
      for (const Tensor64& x : in) out[rank].data[i] += x.data[rank * count + i];
    }
  }
}

}  // namespace

extern const OpInfo kReduceScatter{.op = ir::Op::reduce_scatter,
                                   .formula = "part = the rank's part of the sum of all ranks' x",
                                   .inputs = {"x"},
                                   .outputs = {"part"},
                                   .gradient = reduce_scatter_gradient,
                                   .cost = reduce_scatter_cost,
                                   .reference = reduce_scatter_reference};

}  // namespace hydrac::ops
