// y = x (1 + weight - stop(weight)), of a weight a row: x itself, and a gradient to the weight as if x had
// been multiplied by it (a straight-through estimator).
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use straight_through(RegionBuilder& b, Use x, Use weight, const std::string& name) {
  return b.emit(ir::Op::straight_through, {x, weight}, name, b.shape(x));
}

namespace {

ir::Body straight_through_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0));
  return k.take();
}

ir::Body straight_through_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store_row(0, k.named("sum_dy_y", k.sum(k.full(0) * k.full(1))));
  return k.take();
}

// The gradient reads y, which is x and is kept in any case.
void straight_through_gradient(Gradient& g, const ir::Node& node) {
  const Use y = node.outputs[0], dy = *g.of(y);
  if (g.wanted(node.inputs[0])) g.contribute(node.inputs[0], dy);
  g.contribute_op(node.inputs[1], ir::Op::straight_through_backward, {dy, y});
}

void straight_through_reference(const ir::Node&, const std::vector<Tensor64>& in,
                                std::vector<Tensor64>& out) {
  out[0].data = in[0].data;
}

}  // namespace

extern const OpInfo kStraightThrough{.op = ir::Op::straight_through,
                                     .formula = "y = x (1 + weight - stop(weight))",
                                     .inputs = {"x", "weight"},
                                     .outputs = {"y"},
                                     .body = straight_through_body,
                                     .gradient = straight_through_gradient,
                                     .reference = straight_through_reference};
extern const OpInfo kStraightThroughBackward{.op = ir::Op::straight_through_backward,
                                             .formula = "d_weight = sum of d_y y, of each row",
                                             .inputs = {"d_y", "y"},
                                             .outputs = {"d_weight"},
                                             .body = straight_through_backward_body};

}  // namespace hydrac::ops
