// A mixture of recursions, from its formulas: p = sigmoid(3 tanh(logit / 2)), a token's depth is round(p (R -
// 1)), and its weight exp(-(p (R - 1) - depth)^2).
#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>

#include "oracle/aten/op.h"

namespace hydrac::oracle {
namespace {

at::Tensor probability(const at::Tensor& logit) {
  return at::sigmoid(3 * at::tanh(logit / 2));
}

// p (R - 1)
at::Tensor unrounded_depth(const OpCall& call) {
  return probability(call.input(0)) * (call.attr("recursions") - 1);
}

at::Tensor rounded(const at::Tensor& depth) {
  return at::floor(depth.detach() + 0.5);
}

// The layer's part of the depths that the job says tokens had, [layers, B, T]. Training without them chooses
// its own.
at::Tensor given_or(const OpCall& call, const at::Tensor& own) {
  const at::Tensor given = call.optional_input(1);
  return given.defined() && call.mode != Mode::training ? given.select(0, call.layer).to(own) : own;
}

// Variance over all tokens: squares are divided by their number.
at::Tensor variance(const at::Tensor& x) {
  return (x - x.mean()).square().mean();
}

}  // namespace

// Tokens whose own depth differs from the job's are counted.
at::Tensor recursion_depth(const OpCall& call) {
  const at::Tensor own = rounded(unrounded_depth(call)), depth = given_or(call, own);
  if (call.choices && call.optional_input(1).defined() && call.mode != Mode::training) {
    call.choices->tokens += own.numel();
    call.choices->differing += (own != depth).sum().item<std::int64_t>();
  }
  return depth;
}

at::Tensor recursion_weight(const OpCall& call) {
  const at::Tensor depth = unrounded_depth(call);
  return at::exp(-(depth - given_or(call, rounded(depth))).square());
}

// A token that is done, whose depth is below the pass, stays what it is.
at::Tensor masked_add(const OpCall& call) {
  const at::Tensor &x = call.input(0), &y = call.input(1);
  const at::Tensor goes_on = (call.input(2) >= call.attr("pass")).unsqueeze(-1);
  return at::where(goes_on, x + y, x);
}

at::Tensor straight_through(const OpCall& call) {
  const at::Tensor& weight = call.input(1);
  return call.input(0) * (1 + (weight - weight.detach())).unsqueeze(-1);
}

at::Tensor recursion_loss(const OpCall& call) {
  const at::Tensor &logit = call.input(0), p = probability(logit);
  return call.attr("depth") * p.mean() + call.attr("variance") * at::exp(-10 * variance(p)) +
         call.attr("logit") * at::relu(0.5 - variance(logit));
}

}  // namespace hydrac::oracle
