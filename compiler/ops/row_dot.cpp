// A linear layer with one output, y = x . w + b of each row: a sum over the row in fp32, whatever the precision
// of matmuls. What routes tokens is that small and must be that precise. `detached`: its gradient stops here,
// w and b learn and what made x does not.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use row_dot(RegionBuilder& b, Use x, Use weight, Use bias, const std::string& name, bool detached) {
  return b.exact(
      b.emit(ir::Op::row_dot, {x, weight, bias}, name, leading(b.shape(x)), {{"detached", detached}}));
}

namespace {

bool has_bias(const ir::Node& node) {
  return node.inputs[2].value != ir::kNoValue;
}

ir::Body row_dot_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  ir::Term y = k.named("row_dot", k.sum(k.full(0) * k.per_column(1)));
  if (has_bias(node)) y = y + k.named("bias", k.load(2, {ir::Affine{}}));
  k.store_row(0, y);
  return k.take();
}

// Inputs: d_y, w.
ir::Body row_dot_backward_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.outputs[0]).shape;
  ir::BodyBuilder k(graph, node, leading(shape));
  k.columns(last(shape));
  k.store(0, k.per_row(0) * k.per_column(1));
  return k.take();
}

// Inputs: x, d_y.
ir::Body row_dot_weight_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.column_sum(0, k.full(0) * k.per_row(1), node.flag("accumulate"));
  return k.take();
}

// Input: d_y.
ir::Body row_dot_bias_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  k.row_sum(0, k.per_row(0), node.flag("accumulate"));
  return k.take();
}

void row_dot_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  const Use x = node.inputs[0], weight = node.inputs[1], bias = node.inputs[2];
  if (!node.flag("detached")) g.contribute_op(x, ir::Op::row_dot_backward, {dy, weight});
  if (g.wanted(weight)) {
    const ParameterGradient dw = g.parameter(weight);
    g.emit_node(ir::Op::row_dot_weight_gradient, {x, dy}, {dw.target}, {{"accumulate", dw.accumulate}});
  }
  if (has_bias(node) && g.wanted(bias)) {
    const ParameterGradient db = g.parameter(bias);
    g.emit_node(ir::Op::row_dot_bias_gradient, {dy}, {db.target}, {{"accumulate", db.accumulate}});
  }
}

std::string row_dot_formula(const ir::Node& node) {
  return has_bias(node) ? "y = sum of x w, plus bias" : "y = sum of x w";
}

void row_dot_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t c = in[0].shape.back();
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    out[0].data[r] = in[2].data.empty() ? 0 : in[2].data[0];
    for (int64_t i = 0; i < c; ++i) out[0].data[r] += in[0].data[r * c + i] * in[1].data[i];
  }
}

}  // namespace

extern const OpInfo kRowDot{.op = ir::Op::row_dot,
                            .formula = "y = sum of x w, plus bias",
                            .inputs = {"x", "w", "bias"},
                            .outputs = {"y"},
                            .formula_of = row_dot_formula,
                            .body = row_dot_body,
                            .gradient = row_dot_gradient,
                            .reference = row_dot_reference};
extern const OpInfo kRowDotBackward{.op = ir::Op::row_dot_backward,
                                    .formula = "d_x = d_y w",
                                    .inputs = {"d_y", "w"},
                                    .outputs = {"d_x"},
                                    .body = row_dot_backward_body};
extern const OpInfo kRowDotWeightGradient{.op = ir::Op::row_dot_weight_gradient,
                                          .formula = "d_w = sum over rows of x d_y",
                                          .inputs = {"x", "d_y"},
                                          .outputs = {"d_w"},
                                          .body = row_dot_weight_gradient_body};
extern const OpInfo kRowDotBiasGradient{.op = ir::Op::row_dot_bias_gradient,
                                        .formula = "d_bias = sum over rows of d_y",
                                        .inputs = {"d_y"},
                                        .outputs = {"d_bias"},
                                        .body = row_dot_bias_gradient_body};

}  // namespace hydrac::ops
