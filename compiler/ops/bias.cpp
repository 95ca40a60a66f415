// The bias of a linear layer, where the matmul does not add it: the target's cannot, or ranks add up what
// each has of the matmul before. And the bias's gradient.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use bias_add(RegionBuilder& b, Use x, Use bias, const std::string& name) {
  return b.emit(ir::Op::bias_add, {x, bias}, name, b.shape(x));
}

namespace {

ir::Body bias_add_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0) + k.per_column(1));
  return k.take();
}

void bias_add_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const size_t n = in[1].data.size();
  for (size_t i = 0; i < out[0].data.size(); ++i) out[0].data[i] = in[0].data[i] + in[1].data[i % n];
}

void bias_add_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  if (g.wanted(node.inputs[0])) g.contribute(node.inputs[0], dy);
  if (!g.wanted(node.inputs[1])) return;
  const ParameterGradient db = g.parameter(node.inputs[1]);
  g.emit_node(ir::Op::bias_gradient, {dy}, {db.target}, {{"accumulate", db.accumulate}});
}

ir::Body bias_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.column_sum(0, k.full(0), node.flag("accumulate"));
  return k.take();
}

}  // namespace

extern const OpInfo kBiasAdd{.op = ir::Op::bias_add,
                             .formula = "y = x + bias",
                             .inputs = {"x", "bias"},
                             .outputs = {"y"},
                             .body = bias_add_body,
                             .gradient = bias_add_gradient,
                             .reference = bias_add_reference};
extern const OpInfo kBiasGradient{.op = ir::Op::bias_gradient,
                                  .formula = "d_bias = sum over rows of d_y",
                                  .inputs = {"d_y"},
                                  .outputs = {"d_bias"},
                                  .body = bias_gradient_body};

}  // namespace hydrac::ops
