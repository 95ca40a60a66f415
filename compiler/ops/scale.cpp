// y = x * factor, a number that all elements share: model.embedding_scale, residual_scale and logit_scale.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use scale(RegionBuilder& b, Use x, double factor, const std::string& name) {
  return b.emit(ir::Op::scale, {x}, name, b.shape(x), {{"factor", factor}});
}

namespace {

ir::Body factor_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0) * node.number("factor"));
  return k.take();
}

void factor_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::scale, {*g.of(node.outputs[0])},
                  {{"factor", node.number("factor")}, {"input_name", "d_y"}, {"output_name", "d_x"}});
}

void factor_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  for (size_t i = 0; i < out[0].data.size(); ++i) out[0].data[i] = in[0].data[i] * node.number("factor");
}

}  // namespace

extern const OpInfo kScale{.op = ir::Op::scale,
                           .formula = "y = factor x",
                           .inputs = {"x"},
                           .outputs = {"y"},
                           .body = factor_body,
                           .gradient = factor_gradient,
                           .reference = factor_reference};

}  // namespace hydrac::ops
