// Zeroes a tensor: the gradient that flows into the last layer's unused output, and sums that a loop adds to.
#include "ops/shapes.h"

namespace hydrac::ops {

namespace {

ir::Body zero_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.outputs[0]).shape;
  ir::BodyBuilder k(graph, node, shape.empty() ? shape : leading(shape));
  if (shape.empty()) {
    k.store_row(0, k.constant(0));
    return k.take();
  }
  k.columns(last(shape));
  k.store(0, k.constant(0));
  return k.take();
}

}  // namespace

extern const OpInfo kZero{.op = ir::Op::zero, .formula = "y = 0", .outputs = {"y"}, .body = zero_body};

}  // namespace hydrac::ops
