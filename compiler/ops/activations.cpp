// Pointwise activations, one row each: value and derivative as expressions, value in float64 as reference.
// gelu is x * Phi(x) (Hendrycks and Gimpel, 2016); gelu_tanh its tanh approximation; silu is x * sigmoid(x);
// relu2 is max(x, 0)^2 (So et al., 2021).
#include "ops/activations.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"
#include "ops/user_function.h"

namespace hydrac::ops {

namespace {

using ir::Term;

constexpr double kInvSqrt2 = 1 / std::numbers::sqrt2;
constexpr double kInvSqrt2Pi = std::numbers::inv_sqrtpi * kInvSqrt2;  // 1 / sqrt(2 pi)
constexpr double kTanhScale = 2 * kInvSqrt2Pi;                        // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

// The normal distribution's cumulative function.
Term cdf(Term x) {
  return x.builder->named("cdf", fma(erf(x * kInvSqrt2), 0.5, 0.5));
}
Term gelu(Term x) {
  return x * cdf(x);
}
Term gelu_derivative(Term x) {
  return fma(x * kInvSqrt2Pi, exp(-0.5 * x * x), cdf(x));
}

// 0.5 (1 + tanh(u)) is sigmoid(2u).
Term tanh_gate(Term x) {
  return x.builder->named("s", sigmoid(x * fma(x * x, 2 * kTanhScale * kTanhCubic, 2 * kTanhScale)));
}
Term gelu_tanh(Term x) {
  return x * tanh_gate(x);
}
// s + y (1 - s) d(2u)/dx, where the value is y = x s.
Term gelu_tanh_derivative(Term x) {
  const Term s = tanh_gate(x), y = x * s;
  return fma(fma(-y, s, y), fma(x * x, 6 * kTanhScale * kTanhCubic, 2 * kTanhScale), s);
}

Term silu(Term x) {
  return x * sigmoid(x);
}
Term silu_derivative(Term x) {
  const Term s = x.builder->named("s", sigmoid(x)), y = x * s;
  return s + fma(-y, s, y);
}

Term relu2(Term x) {
  const Term positive = max(x, x.builder->constant(0));
  return positive * positive;
}
Term relu2_derivative(Term x) {
  return 2 * max(x, x.builder->constant(0));
}

double gelu64(double x) {
  return 0.5 * x * (1 + std::erf(x * kInvSqrt2));
}
double gelu_tanh64(double x) {
  return 0.5 * x * (1 + std::tanh(kTanhScale * (x + kTanhCubic * x * x * x)));
}
double silu64(double x) {
  return x / (1 + std::exp(-x));
}
double relu264(double x) {
  return x > 0 ? x * x : 0;
}

}  // namespace

const Activation& activation_named(const std::string& name) {
  static const Activation table[] = {
      {"gelu", gelu, gelu_derivative, gelu64},
      {"gelu_tanh", gelu_tanh, gelu_tanh_derivative, gelu_tanh64},
      {"silu", silu, silu_derivative, silu64},
      {"relu2", relu2, relu2_derivative, relu264},
  };
  for (const Activation& activation : table) {
    if (activation.name == name) return activation;
  }
  throw std::logic_error("unknown activation " + name);
}

Use activation(RegionBuilder& b, const std::string& kind, Use x, const std::string& name) {
  return b.emit(ir::Op::activation, {x}, name, b.shape(x), {{"kind", kind}});
}

Use activation(RegionBuilder& b, const functions::Function& function, Use x, const std::string& name) {
  return b.emit(ir::Op::activation, {x}, name, b.shape(x), function_attributes(function));
}

namespace {

const Activation& kind_of(const ir::Node& node) {
  return activation_named(std::get<std::string>(node.attributes.at("kind")));
}

ir::Body activation_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const functions::Function* function = function_of(node);
  k.store(0, function ? call(k, *function, {k.full(0)}) : kind_of(node).value(k.full(0)));
  return k.take();
}

ir::Body activation_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const functions::Function* function = function_of(node);
  const Term x = k.full(1);
  k.store(0, k.full(0) * (function ? call_derivative(k, *function, 0, {x}) : kind_of(node).derivative(x)));
  return k.take();
}

std::string activation_kernel(const ir::Node& node) {
  const functions::Function* function = function_of(node);
  return function ? kernel_name(*function) : std::string(kind_of(node).name);
}
std::string activation_backward_kernel(const ir::Node& node) {
  return activation_kernel(node) + "_backward";
}

void activation_gradient(Gradient& g, const ir::Node& node) {
  const Use y = node.outputs[0], x = node.inputs[0];
  if (g.wanted(x)) g.contribute_op(x, ir::Op::activation_backward, {*g.of(y), x}, node.attributes);
}

void activation_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const functions::Function* function = function_of(node);
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    const double x = in[0].data[i];
    out[0].data[i] = function ? evaluate<double>(*function, {x}) : kind_of(node).reference(x);
  }
}

}  // namespace

extern const OpInfo kActivation{.op = ir::Op::activation,
                                .formula = "y = act(x)",
                                .inputs = {"x"},
                                .outputs = {"y"},
                                .kernel = activation_kernel,
                                .body = activation_body,
                                .gradient = activation_gradient,
                                .reference = activation_reference};
extern const OpInfo kActivationBackward{.op = ir::Op::activation_backward,
                                        .formula = "d_x = d_y * act'(x)",
                                        .inputs = {"d_y", "x"},
                                        .outputs = {"d_x"},
                                        .kernel = activation_backward_kernel,
                                        .body = activation_backward_body};

}  // namespace hydrac::ops
