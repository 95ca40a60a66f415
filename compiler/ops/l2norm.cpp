// Vectors of unit length, times one learned temperature: y = x * rnorm * temperature, rnorm = 1 / |x|. The
// epsilon keeps a vector of zeros zero.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use l2norm(RegionBuilder& b, Use x, Use temperature, const std::string& name) {
  constexpr double epsilon = 1e-12;
  const Use y = b.emit(ir::Op::l2norm, {x, temperature}, name, b.shape(x), {{"eps", epsilon}});
  b.region().nodes.back().outputs.push_back(b.fresh_beside(y, name + ".rnorm", leading(b.shape(x))));
  return y;
}

namespace {

using ir::Term;

Term scaled(ir::BodyBuilder& k, const ir::Node& node, int temperature, Term x) {
  if (node.inputs[temperature].value == ir::kNoValue) return x;
  return x * k.named("temperature", k.load(temperature, {ir::Affine{}}));
}

ir::Body l2norm_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term x = k.full(0);
  const Term squares = k.named("sum_of_squares", k.sum(x * x));
  const Term epsilon = k.constant(node.number("eps"), ir::ExprType::f32, "kTiny");
  const Term rnorm = k.named("row_rnorm", rsqrt(squares + epsilon));
  k.store(0, scaled(k, node, 1, x * rnorm));
  k.store_row(1, rnorm);
  return k.take();
}

// With u = x * rnorm and g = d_y * temperature:  d_x = rnorm * (g - u * sum(g * u)), d_temperature = sum(d_y
// * u).
ir::Body l2norm_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term rnorm = k.named("row_rnorm", k.per_row(3));
  const Term u = k.named("u", k.full(1) * rnorm);
  const Term g = k.named("g", scaled(k, node, 2, k.full(0)));
  const Term sum_g_u = k.named("sum_g_u", k.sum(g * u));
  k.store(0, rnorm * (g - u * sum_g_u));
  return k.take();
}

ir::Body temperature_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Term u = k.named("u", k.full(1) * k.named("row_rnorm", k.per_row(2)));
  k.row_sum(0, k.named("sum_dy_u", k.sum(k.full(0) * u)), node.flag("accumulate"));
  return k.take();
}

void l2norm_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  const Use x = node.inputs[0], temperature = node.inputs[1], rnorm = node.outputs[1];
  g.contribute_op(x, ir::Op::l2norm_backward, {dy, x, temperature, rnorm});
  if (g.wanted(temperature)) {
    const ParameterGradient target = g.parameter(temperature);
    g.emit_node(ir::Op::l2norm_temperature_gradient, {dy, x, rnorm}, {target.target},
                {{"accumulate", target.accumulate}});
  }
}

void l2norm_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t d = in[0].shape.back();
  const double temperature = in[1].data.empty() ? 1 : in[1].data[0];
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    const double* x = &in[0].data[r * d];
    double squares = node.number("eps");
    for (int64_t i = 0; i < d; ++i) squares += x[i] * x[i];
    const double rnorm = 1 / std::sqrt(squares);
    for (int64_t i = 0; i < d; ++i) out[0].data[r * d + i] = x[i] * rnorm * temperature;
    out[1].data[r] = rnorm;
  }
}

}  // namespace

extern const OpInfo kL2norm{.op = ir::Op::l2norm,
                            .formula = "unit = x rnorm temperature, rnorm = 1 / |x|",
                            .inputs = {"x", "temperature"},
                            .outputs = {"unit", "rnorm"},
                            .stores_statistics = true,
                            .body = l2norm_body,
                            .gradient = l2norm_gradient,
                            .reference = l2norm_reference};
extern const OpInfo kL2normBackward{
    .op = ir::Op::l2norm_backward,
    .formula = "d_x = rnorm (g - u sum(g u)), u = x rnorm, g = d_unit temperature",
    .inputs = {"d_unit", "x", "temperature", "rnorm"},
    .outputs = {"d_x"},
    .body = l2norm_backward_body};
extern const OpInfo kL2normTemperatureGradient{.op = ir::Op::l2norm_temperature_gradient,
                                               .formula = "d_temperature = sum of d_unit x rnorm",
                                               .inputs = {"d_unit", "x", "rnorm"},
                                               .outputs = {"d_temperature"},
                                               .body = temperature_gradient_body};

}  // namespace hydrac::ops
