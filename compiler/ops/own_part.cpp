// A copy of the rank's part of each tensor: of n equal parts, one behind the other, rank r's is the r-th.
// It is no op of a model, except where ranks share layers (attribute tensor: r counts these): the whole is
// the same on all of them, and all parts of the gradient are its gradient.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/op.h"

namespace hydrac::ops {

Use own_rows(RegionBuilder& b, Use x, ir::Shape part, int64_t ranks, const std::string& name) {
  return b.emit(ir::Op::own_part, {x}, name, std::move(part), {{"ranks", ranks}, {"tensor", true}});
}

namespace {

void own_part_gradient(Gradient& g, const ir::Node& node) {
  const Use dx = g.fresh(g.name_of(node.inputs[0]), g.shape(node.inputs[0]));
  if (g.value(node.inputs[0]).exact) g.exact(dx);
  g.emit_node(ir::Op::all_gather, {*g.of(node.outputs[0])}, {dx}, node.attributes);
  g.contribute(node.inputs[0], dx);
}

Cost own_part_cost(const ir::Graph& graph, const ir::Node& node) {
  Cost cost;
  for (const ir::Use use : node.outputs) {
    const ir::Value& part = graph.value(use);
    cost.bytes +=
        2 * static_cast<double>(element_count(part.shape)) * static_cast<double>(size_of(part.dtype));
  }
  return cost;
}

// Outputs are all ranks' parts of one x.
void own_part_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const size_t count = out[0].data.size();
  for (size_t rank = 0; rank < out.size(); ++rank)
    for (size_t i = 0; i < count; ++i) out[rank].data[i] = in[0].data[rank * count + i];
}

}  // namespace

extern const OpInfo kOwnPart{.op = ir::Op::own_part,
                             .formula = "part = the rank's part of x",
                             .inputs = {"x"},
                             .outputs = {"part"},
                             .gradient = own_part_gradient,
                             .cost = own_part_cost,
                             .reference = own_part_reference};

}  // namespace hydrac::ops
