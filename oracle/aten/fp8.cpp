#include "oracle/aten/fp8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/frexp.h>
#include <ATen/ops/ldexp.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>

#include "oracle/aten/op.h"

namespace hydrac::oracle {
namespace {

float largest_magnitude(const at::Tensor& x) {
  return x.detach().abs().max().item<float>();
}

// A tensor of 8 bits, and what its elements are multiplied by.
struct Quantized {
  at::Tensor values;
  float inverse;
};

Quantized quantized(const at::Tensor& x, const Float8& type, float scale) {
  return {rounded_to(x.detach() * scale, type), 1 / scale};
}

}  // namespace

at::Tensor rounded_to(const at::Tensor& x, const Float8& type) {
  const at::Tensor bounded = x.clamp(-type.largest, type.largest);
  const auto [mantissa, exponent] = at::frexp(bounded);
  const at::Tensor unit = at::ldexp(at::ones_like(bounded), (exponent - type.digits).clamp_min(type.least));
  return (bounded / unit).round() * unit;
}

float DelayedScale::scale() const {
  const float most = *std::max_element(history_.begin(), history_.end());
  return most > 0 ? type_.largest / most : start_;
}

void DelayedScale::see(const at::Tensor& x) {
  now_ = std::max(now_, largest_magnitude(x));
}

void DelayedScale::next_step() {
  history_[static_cast<std::size_t>(step_++) % history_.size()] = now_;
  now_ = 0;
}

Fp8Scales::Pair& Fp8Scales::at(const Node& node, int layer, float gradient_start) {
  constexpr float input_start = 16;
  const Pair fresh{{kE4m3, input_start}, {kE5m2, gradient_start}};
  return pairs_.try_emplace({node.inputs[1]->value, layer}, fresh).first->second;
}

void Fp8Scales::next_step() {
  for (auto& [place, pair] : pairs_) {
    pair.input.next_step();
    pair.gradient.next_step();
  }
}

// Three products that agree in size: the first has the value, the others, from which their values are taken
// again, pass the gradients to x and to the weight.
at::Tensor fp8_linear(const OpCall& call, const at::Tensor& x) {
  const at::Tensor &weight = call.input(1), bias = call.optional_input(2);
  Fp8Scales::Pair& scales =
      call.fp8->at(call.node, call.layer, static_cast<float>(call.attr("fp8.gradient_start")));
  const Quantized w = quantized(weight, kE4m3, kE4m3.largest / largest_magnitude(weight));
  const at::Tensor read_weight = w.values * w.inverse;

  at::Tensor value = at::linear(x.detach(), weight.detach());
  if (call.attr("fp8.forward") != 0) {
    const Quantized in = quantized(x, kE4m3, scales.input.scale());
    scales.input.see(x);
    value = at::linear(in.values, w.values) * (in.inverse * w.inverse);
  }
  const auto quantize_gradient = [&](const at::Tensor& product) {
    if (!product.requires_grad()) return;
    product.register_hook([&gradient = scales.gradient](const at::Tensor& d_y) {
      const Quantized d = quantized(d_y, gradient.type(), gradient.scale());
      gradient.see(d_y);
      return d.values * d.inverse;
    });
  };
  const bool input_gradient = call.attr("fp8.input_gradient") != 0,
             weight_gradient = call.attr("fp8.weight_gradient") != 0;
  const at::Tensor of_x = at::linear(x, input_gradient ? read_weight : weight.detach());
  if (input_gradient) quantize_gradient(of_x);
  const Quantized read_x = quantized(x, kE4m3, scales.input.scale());
  const at::Tensor of_weight =
      at::linear(weight_gradient ? read_x.values * read_x.inverse : x.detach(), weight);
  if (weight_gradient) quantize_gradient(of_weight);
  const at::Tensor y = value + (of_x - of_x.detach()) + (of_weight - of_weight.detach());
  return bias.defined() ? y + bias : y;
}

}  // namespace hydrac::oracle
