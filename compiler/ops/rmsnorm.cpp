// Root-mean-square norm over the last dimension (Zhang and Sennrich, 2019): y = x * rstd * w, rstd =
// 1/sqrt(mean(x^2) + eps). rmsnorm_again finds rstd in memory. With the attribute "offset" w is that plus the
// weight.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/norm_offset.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use rmsnorm(RegionBuilder& b, Use x, Use weight, double epsilon, const std::string& name, double offset) {
  ir::Attributes attributes = {{"eps", epsilon}};
  set_offset(attributes, offset);
  const Use y = b.emit(ir::Op::rmsnorm, {x, weight}, name, b.shape(x), std::move(attributes));
  b.region().nodes.back().outputs.push_back(b.fresh_beside(y, name + ".rstd", leading(b.shape(x))));
  return y;
}

namespace {

ir::Body rmsnorm_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term x = k.full(0);
  const ir::Term mean_square = k.mean(x * x, "sum_of_squares");
  const ir::Term epsilon = k.constant(ir::spec_number("norm_eps", node.number("eps"), "model.norm_eps"),
                                      ir::ExprType::f32, "kEpsilon");
  const ir::Term rstd = k.named("row_rstd", rsqrt(mean_square + epsilon));
  k.store(0, x * rstd * factor_of(k, node, 1));
  k.store_row(1, rstd);
  return k.take();
}

ir::Body rmsnorm_again_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term rstd = k.named("row_rstd", k.per_row(2));
  k.store(0, k.named("xhat", k.full(0) * rstd) * factor_of(k, node, 1));
  return k.take();
}

// With xhat = x * rstd and g = d_y * w:  d_x = rstd * (g - xhat * mean(g * xhat)),  d_w = sum_rows(d_y *
// xhat).
ir::Body rmsnorm_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term rstd = k.named("row_rstd", k.per_row(3));
  const ir::Term xhat = k.named("xhat", k.full(1) * rstd);
  const ir::Term g = k.named("g", k.full(0) * factor_of(k, node, 2));
  const ir::Term mean_g_xhat = k.named("mean_g_xhat", k.mean(g * xhat, "sum_g_xhat"));
  k.store(0, rstd * (g - xhat * mean_g_xhat));
  return k.take();
}

ir::Body rmsnorm_weight_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term rstd = k.named("row_rstd", k.per_row(2));
  const ir::Term xhat = k.named("xhat", k.full(1) * rstd);
  k.column_sum(0, k.full(0) * xhat, node.flag("accumulate"));
  return k.take();
}

void rmsnorm_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  const Use x = node.inputs[0], weight = node.inputs[1], rstd = node.outputs[1];
  g.contribute_op(x, ir::Op::rmsnorm_backward, {dy, x, weight, rstd}, only_offset(node));
  if (g.wanted(weight)) {
    const ParameterGradient dw = g.parameter(weight);
    g.emit_node(ir::Op::rmsnorm_weight_gradient, {dy, x, rstd}, {dw.target}, {{"accumulate", dw.accumulate}});
  }
}

void rmsnorm_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t c = in[0].shape.back();
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    const double* x = &in[0].data[r * c];
    double square = 0;
    for (int64_t i = 0; i < c; ++i) square += x[i] * x[i];
    const double rstd = 1 / std::sqrt(square / static_cast<double>(c) + node.number("eps"));
    for (int64_t i = 0; i < c; ++i) out[0].data[r * c + i] = x[i] * rstd * (in[1].data[i] + offset_of(node));
    out[1].data[r] = rstd;
  }
}

void rmsnorm_again_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                             std::vector<Tensor64>& out) {
  const int64_t c = in[0].shape.back();
  for (size_t i = 0; i < in[0].data.size(); ++i)
    out[0].data[i] = in[0].data[i] * in[2].data[i / c] * (in[1].data[i % c] + offset_of(node));
}

std::string rmsnorm_formula(const ir::Node& node) {
  return "normed = x rstd " + factor_text(node) +
         (node.op == ir::Op::rmsnorm ? ", rstd = 1 / sqrt(mean(x^2) + eps)" : "");
}

std::string rmsnorm_backward_formula(const ir::Node& node) {
  return "d_x = rstd (g - xhat mean(g xhat)), xhat = x rstd, g = d_normed " + factor_text(node);
}

}  // namespace

extern const OpInfo kRmsnorm{.op = ir::Op::rmsnorm,
                             .formula = "normed = x rstd norm_weight, rstd = 1 / sqrt(mean(x^2) + eps)",
                             .inputs = {"x", "norm_weight"},
                             .outputs = {"normed", "rstd"},
                             .stores_statistics = true,
                             .from_statistics = ir::Op::rmsnorm_again,
                             .formula_of = rmsnorm_formula,
                             .body = rmsnorm_body,
                             .gradient = rmsnorm_gradient,
                             .reference = rmsnorm_reference};
extern const OpInfo kRmsnormAgain{.op = ir::Op::rmsnorm_again,
                                  .formula = "normed = x rstd norm_weight",
                                  .inputs = {"x", "norm_weight", "rstd"},
                                  .outputs = {"normed"},
                                  .formula_of = rmsnorm_formula,
                                  .body = rmsnorm_again_body,
                                  .reference = rmsnorm_again_reference};
extern const OpInfo kRmsnormBackward{
    .op = ir::Op::rmsnorm_backward,
    .formula = "d_x = rstd (g - xhat mean(g xhat)), xhat = x rstd, g = d_normed norm_weight",
    .inputs = {"d_normed", "x", "norm_weight", "rstd"},
    .outputs = {"d_x"},
    .formula_of = rmsnorm_backward_formula,
    .body = rmsnorm_backward_body};
extern const OpInfo kRmsnormWeightGradient{.op = ir::Op::rmsnorm_weight_gradient,
                                           .formula = "d_norm_weight = sum over rows of d_normed xhat",
                                           .inputs = {"d_normed", "x", "rstd"},
                                           .outputs = {"d_norm_weight"},
                                           .body = rmsnorm_weight_gradient_body};

}  // namespace hydrac::ops
