// Losses of pairs of texts, from their formulas. Inputs of a loss: log-probabilities of the chosen and of the
// rejected texts, how many tokens these are, and the reference's log-probabilities, where there is one.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "oracle/aten/op.h"

namespace hydrac::oracle {
namespace {

// [B,P,T]: the tokens of each chosen or rejected text, which segments [B,T] numbers.
at::Tensor tokens_of_texts(const OpCall& call, const at::Tensor& segments) {
  const at::Tensor pairs = at::arange(call.output_shape()[1], segments.options());
  const at::Tensor texts = 2 * pairs + (call.attr("rejected") != 0 ? 1 : 0);
  return segments.unsqueeze(1) == texts.unsqueeze(-1);
}

struct Ratios {
  at::Tensor chosen, rejected;
};

Ratios ratios(const OpCall& call) {
  const at::Tensor chosen = call.optional_input(4), rejected = call.optional_input(5);
  return {chosen.defined() ? call.input(0) - chosen : call.input(0),
          rejected.defined() ? call.input(1) - rejected : call.input(1)};
}

Ratios per_token(const OpCall& call) {
  const Ratios whole = ratios(call);
  return {whole.chosen / call.input(2).clamp_min(1), whole.rejected / call.input(3).clamp_min(1)};
}

// Pairs without tokens are none.
at::Tensor of_pairs(const OpCall& call, const at::Tensor& losses) {
  return at::where(call.input(2) > 0, losses, at::zeros_like(losses));
}

at::Tensor logistic(const OpCall& call, const at::Tensor& margins) {
  const double flipped = call.attr("label_smoothing");
  return of_pairs(call, -(1 - flipped) * at::log_sigmoid(margins) - flipped * at::log_sigmoid(-margins));
}

at::Tensor log_odds(const at::Tensor& mean) {
  return mean - at::log(1 - at::exp(mean));
}

}  // namespace

at::Tensor pair_sum(const OpCall& call) {
  const at::Tensor mask = tokens_of_texts(call, call.input(1));
  return -(call.input(0).unsqueeze(1) * mask).sum(-1);
}

at::Tensor pair_tokens(const OpCall& call) {
  return tokens_of_texts(call, call.input(1)).sum(-1).to(call.input(0).scalar_type());
}

at::Tensor dpo(const OpCall& call) {
  const Ratios of = ratios(call);
  return logistic(call, call.attr("beta") * (of.chosen - of.rejected));
}

at::Tensor simpo(const OpCall& call) {
  const Ratios of = per_token(call);
  return logistic(call, call.attr("beta") * (of.chosen - of.rejected) - call.attr("gamma"));
}

at::Tensor ipo(const OpCall& call) {
  const Ratios of = per_token(call);
  return of_pairs(call, (of.chosen - of.rejected - 1 / (2 * call.attr("beta"))).square());
}

// The odds of a pair that is none would be infinite, and so would be gradients behind at::where().
at::Tensor orpo(const OpCall& call) {
  const Ratios of = per_token(call);
  const at::Tensor is_there = call.input(2) > 0;
  const at::Tensor c = at::where(is_there, of.chosen, -at::ones_like(of.chosen)),
                   r = at::where(is_there, of.rejected, -at::ones_like(of.rejected));
  return of_pairs(call, -c - call.attr("beta") * at::log_sigmoid(log_odds(c) - log_odds(r)));
}

at::Tensor apo_zero(const OpCall& call) {
  const Ratios of = ratios(call);
  const double beta = call.attr("beta");
  return of_pairs(call, 1 - at::sigmoid(beta * of.chosen) + at::sigmoid(beta * of.rejected));
}

at::Tensor apo_down(const OpCall& call) {
  const Ratios of = ratios(call);
  const double beta = call.attr("beta");
  return of_pairs(call, at::sigmoid(beta * of.chosen) + 1 - at::sigmoid(beta * (of.chosen - of.rejected)));
}

}  // namespace hydrac::oracle
