// Layer norm over the last dimension (Ba et al., 2016): normed = (x - mean) rstd norm_weight + norm_bias,
// rstd = 1 / sqrt(variance + eps), biased variance. layernorm_again finds mean and rstd in memory.
// With the attribute "offset" norm_weight is that plus the weight.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/norm_offset.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use layernorm(RegionBuilder& b, Use x, Use weight, Use bias, double epsilon, const std::string& name,
              double offset) {
  ir::Attributes attributes = {{"eps", epsilon}};
  set_offset(attributes, offset);
  const Use y = b.emit(ir::Op::layernorm, {x, weight, bias}, name, b.shape(x), std::move(attributes));
  for (const char* statistic : {".mean", ".rstd"}) {
    b.region().nodes.back().outputs.push_back(b.fresh_beside(y, name + statistic, leading(b.shape(x))));
  }
  return y;
}

namespace {

ir::Term weighted(ir::BodyBuilder& k, const ir::Node& node, ir::Term xhat) {
  const ir::Term y = xhat * factor_of(k, node, 1);
  return node.inputs[2].value == ir::kNoValue ? y : y + k.per_column(2);
}

ir::Body layernorm_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term x = k.full(0);
  const ir::Term mean = k.named("row_mean", k.mean(x, "row_sum"));
  const ir::Term centered = k.named("centered", x - mean);
  const ir::Term variance = k.mean(centered * centered, "sum_of_squares");
  const ir::Term epsilon = k.constant(ir::spec_number("norm_eps", node.number("eps"), "model.norm_eps"),
                                      ir::ExprType::f32, "kEpsilon");
  const ir::Term rstd = k.named("row_rstd", rsqrt(variance + epsilon));
  k.store(0, weighted(k, node, centered * rstd));
  k.store_row(1, mean);
  k.store_row(2, rstd);
  return k.take();
}

ir::Body layernorm_again_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term mean = k.named("row_mean", k.per_row(3)), rstd = k.named("row_rstd", k.per_row(4));
  k.store(0, weighted(k, node, k.named("xhat", (k.full(0) - mean) * rstd)));
  return k.take();
}

// With xhat = (x - mean) * rstd and g = d_y * w:
// d_x = rstd * (g - mean(g) - xhat * mean(g * xhat)),  d_norm_weight = sum over rows of d_normed xhat,  d_b =
// sum_rows(d_y).
ir::Body layernorm_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term rstd = k.named("row_rstd", k.per_row(4)), mean = k.named("row_mean", k.per_row(3));
  const ir::Term xhat = k.named("xhat", (k.full(1) - mean) * rstd);
  const ir::Term g = k.named("g", k.full(0) * factor_of(k, node, 2));
  const ir::Term mean_g = k.named("mean_g", k.mean(g, "sum_g"));
  const ir::Term mean_g_xhat = k.named("mean_g_xhat", k.mean(g * xhat, "sum_g_xhat"));
  k.store(0, rstd * (g - mean_g - xhat * mean_g_xhat));
  return k.take();
}

ir::Body layernorm_weight_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const ir::Term mean = k.named("row_mean", k.per_row(2)), rstd = k.named("row_rstd", k.per_row(3));
  const ir::Term xhat = k.named("xhat", (k.full(1) - mean) * rstd);
  k.column_sum(0, k.full(0) * xhat, node.flag("accumulate"));
  return k.take();
}

void layernorm_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  const Use x = node.inputs[0], weight = node.inputs[1], bias = node.inputs[2];
  const Use mean = node.outputs[1], rstd = node.outputs[2];
  g.contribute_op(x, ir::Op::layernorm_backward, {dy, x, weight, mean, rstd}, only_offset(node));
  if (g.wanted(weight)) {
    const ParameterGradient dw = g.parameter(weight);
    g.emit_node(ir::Op::layernorm_weight_gradient, {dy, x, mean, rstd}, {dw.target},
                {{"accumulate", dw.accumulate}});
  }
  if (bias.value != ir::kNoValue && g.wanted(bias)) {
    const ParameterGradient db = g.parameter(bias);
    g.emit_node(ir::Op::bias_gradient, {dy}, {db.target},
                {{"accumulate", db.accumulate}, {"output_name", "d_norm_bias"}});
  }
}

void layernorm_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t c = in[0].shape.back();
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    const double* x = &in[0].data[r * c];
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < c; ++i) mean += x[i] / static_cast<double>(c);
    for (int64_t i = 0; i < c; ++i) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(c);
    const double rstd = 1 / std::sqrt(variance + node.number("eps"));
    for (int64_t i = 0; i < c; ++i) {
      out[0].data[r * c + i] =
          (x[i] - mean) * rstd * (in[1].data[i] + offset_of(node)) + (in[2].data.empty() ? 0 : in[2].data[i]);
    }
    out[1].data[r] = mean;
    out[2].data[r] = rstd;
  }
}

void layernorm_again_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                               std::vector<Tensor64>& out) {
  const int64_t c = in[0].shape.back();
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const double xhat = (in[0].data[i] - in[3].data[i / c]) * in[4].data[i / c];
    out[0].data[i] =
        xhat * (in[1].data[i % c] + offset_of(node)) + (in[2].data.empty() ? 0 : in[2].data[i % c]);
  }
}

constexpr std::string_view kNormedWithBias = "normed = (x - mean) * rstd * norm_weight + norm_bias";

std::string layernorm_formula(const ir::Node& node) {
  const bool has_bias = node.inputs.at(2).value != ir::kNoValue;
  return "normed = (x - mean) * rstd * " + factor_text(node) + (has_bias ? " + norm_bias" : "");
}

std::string layernorm_backward_formula(const ir::Node& node) {
  return "d_x = rstd (g - mean(g) - xhat mean(g xhat)), xhat = (x - mean) rstd, g = d_normed " +
         factor_text(node);
}

}  // namespace

extern const OpInfo kLayernorm{.op = ir::Op::layernorm,
                               .formula = kNormedWithBias,
                               .inputs = {"x", "norm_weight", "norm_bias"},
                               .outputs = {"normed", "mean", "rstd"},
                               .stores_statistics = true,
                               .from_statistics = ir::Op::layernorm_again,
                               .formula_of = layernorm_formula,
                               .body = layernorm_body,
                               .gradient = layernorm_gradient,
                               .reference = layernorm_reference};
extern const OpInfo kLayernormAgain{.op = ir::Op::layernorm_again,
                                    .formula = kNormedWithBias,
                                    .inputs = {"x", "norm_weight", "norm_bias", "mean", "rstd"},
                                    .outputs = {"normed"},
                                    .formula_of = layernorm_formula,
                                    .body = layernorm_again_body,
                                    .reference = layernorm_again_reference};
extern const OpInfo kLayernormBackward{
    .op = ir::Op::layernorm_backward,
    .formula =
        "d_x = rstd (g - mean(g) - xhat mean(g xhat)), xhat = (x - mean) rstd, g = d_normed norm_weight",
    .inputs = {"d_normed", "x", "norm_weight", "mean", "rstd"},
    .outputs = {"d_x"},
    .formula_of = layernorm_backward_formula,
    .body = layernorm_backward_body};
extern const OpInfo kLayernormWeightGradient{.op = ir::Op::layernorm_weight_gradient,
                                             .formula = "d_norm_weight = sum over rows of d_normed xhat",
                                             .inputs = {"d_normed", "x", "mean", "rstd"},
                                             .outputs = {"d_norm_weight"},
                                             .body = layernorm_weight_gradient_body};

}  // namespace hydrac::ops
