// A router's number of each token, in f32 whatever the precision of activations: score = sum(x * weight) +
// bias.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use token_score(RegionBuilder& b, Use x, Use weight, Use bias, const std::string& name, bool detached) {
  ir::Attributes attributes;
  if (detached) attributes["detached"] = true;
  return b.exact(b.emit(ir::Op::token_score, {x, weight, bias}, name, leading(b.shape(x)), attributes));
}

namespace {

using ir::Term;

bool has_bias(const ir::Node& node) {
  return node.inputs[2].value != ir::kNoValue;
}

ir::Body token_score_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term sum = k.named("sum_x_weight", k.sum(k.full(0) * k.per_column(1)));
  k.store_row(0, has_bias(node) ? sum + k.named("bias", k.load(2, {ir::Affine{}})) : sum);
  return k.take();
}

ir::Body token_score_backward_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.outputs[0]).shape;
  ir::BodyBuilder k(graph, node, leading(shape));
  k.columns(last(shape));
  k.store(0, k.per_row(0) * k.per_column(1));
  return k.take();
}

ir::Body token_score_weight_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node, 1);
  k.column_sum(0, k.per_row(0) * k.full(1), node.flag("accumulate"));
  return k.take();
}

ir::Body token_score_bias_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  k.row_sum(0, k.per_row(0), node.flag("accumulate"));
  return k.take();
}

// Sums over rows of tensors that are f32 in every program. On a GPU a kernel that also moves 16-bit tensors
// has other rows in a thread, and would add up in another order: they are kernels of their own, whatever is
// computed again beside them.
ir::Attributes sum_attributes(bool accumulate) {
  return {{"accumulate", accumulate}, {"alone", true}};
}

void token_score_gradient(Gradient& g, const ir::Node& node) {
  const Use d_score = *g.of(node.outputs[0]), x = node.inputs[0], weight = node.inputs[1],
            bias = node.inputs[2];
  if (!node.optional_flag("detached")) g.contribute_op(x, ir::Op::token_score_backward, {d_score, weight});
  if (g.wanted(weight)) {
    const ParameterGradient dw = g.parameter(weight);
    g.emit_node(ir::Op::token_score_weight_gradient, {d_score, x}, {dw.target},
                sum_attributes(dw.accumulate));
  }
  if (has_bias(node) && g.wanted(bias)) {
    const ParameterGradient db = g.parameter(bias);
    g.emit_node(ir::Op::token_score_bias_gradient, {d_score}, {db.target}, sum_attributes(db.accumulate));
  }
}

void token_score_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t c = in[0].shape.back();
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    double sum = in[2].data.empty() ? 0 : in[2].data[0];
    for (int64_t i = 0; i < c; ++i) sum += in[0].data[r * c + i] * in[1].data[i];
    out[0].data[r] = sum;
  }
}

}  // namespace

extern const OpInfo kTokenScore{.op = ir::Op::token_score,
                                .formula = "score = sum(x router_weight) + bias, of each row",
                                .inputs = {"x", "router_weight", "bias"},
                                .outputs = {"score"},
                                .body = token_score_body,
                                .gradient = token_score_gradient,
                                .reference = token_score_reference};
extern const OpInfo kTokenScoreBackward{.op = ir::Op::token_score_backward,
                                        .formula = "d_x = d_score router_weight",
                                        .inputs = {"d_score", "router_weight"},
                                        .outputs = {"d_x"},
                                        .body = token_score_backward_body};
extern const OpInfo kTokenScoreWeightGradient{.op = ir::Op::token_score_weight_gradient,
                                              .formula = "d_router_weight = sum over rows of d_score x",
                                              .inputs = {"d_score", "x"},
                                              .outputs = {"d_router_weight"},
                                              .body = token_score_weight_gradient_body};
extern const OpInfo kTokenScoreBiasGradient{.op = ir::Op::token_score_bias_gradient,
                                            .formula = "d_bias = sum of d_score",
                                            .inputs = {"d_score"},
                                            .outputs = {"d_bias"},
                                            .body = token_score_bias_gradient_body};

}  // namespace hydrac::ops
