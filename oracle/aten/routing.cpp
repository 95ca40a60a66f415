// Layers that compute some tokens of a sequence: their choice, their rows, and the scores' part in what they
// add.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "oracle/aten/op.h"
#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

// tokens[B, K] as indices of x[B, T, ..]'s second dimension: [B, K, ..].
at::Tensor index_of_rows(const at::Tensor& tokens, const at::Tensor& rows) {
  at::Tensor index = tokens;
  while (index.dim() < rows.dim()) index = index.unsqueeze(-1);
  return index.expand(rows.sizes());
}

std::vector<std::int64_t> places_of_highest(const double* scores, std::int64_t tokens, std::int64_t chosen) {
  std::vector<std::int64_t> order(tokens), places(tokens, -1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t i, std::int64_t j) { return scores[i] > scores[j]; });
  order.resize(chosen);
  std::sort(order.begin(), order.end());
  for (std::int64_t place = 0; place < chosen; ++place) places[order[place]] = place;
  return places;
}

// As a program does it that need not say which of equal scores is higher.
at::Tensor places_by_topk(const at::Tensor& scores, std::int64_t chosen) {
  const at::Tensor tokens = std::get<0>(at::sort(std::get<1>(at::topk(scores.detach(), chosen, 1)), 1));
  const at::Tensor places = at::arange(chosen, tokens.options()).expand(tokens.sizes());
  return at::full(scores.sizes(), -1, tokens.options()).scatter(1, tokens, places);
}

}  // namespace

// scores[B, T] -> the place of each of the `chosen` highest among these, in the order of tokens, and -1 of
// the others. Where the job says what was chosen, [layers, B, T], that is the result, and the difference is
// counted.
at::Tensor choose_tokens(const OpCall& call) {
  if (call.mode == Mode::training)
    return places_by_topk(call.input(0), static_cast<std::int64_t>(call.attr("chosen")));
  const at::Tensor scores = call.input(0).detach().to(at::kCPU, at::kDouble).contiguous();
  const auto chosen = static_cast<std::int64_t>(call.attr("chosen"));
  const std::int64_t tokens = scores.size(1);
  if (chosen > tokens) throw JobError("more tokens are chosen than there are");
  std::vector<std::int64_t> places;
  for (std::int64_t b = 0; b < scores.size(0); ++b) {
    const auto of_sequence = places_of_highest(scores.data_ptr<double>() + b * tokens, tokens, chosen);
    places.insert(places.end(), of_sequence.begin(), of_sequence.end());
  }
  const at::Tensor own = at::tensor(places, at::kLong).view(scores.sizes()).to(call.input(0).device());
  const at::Tensor given = call.optional_input(1);
  if (!given.defined()) return own;
  const at::Tensor of_layer = given.select(0, call.layer);
  if (call.choices) {
    call.choices->tokens += own.numel();
    call.choices->differing += ((own < 0) != (of_layer < 0)).sum().item<std::int64_t>();
  }
  return of_layer;
}

// places[B, T] -> the token that has each place, [B, K].
at::Tensor chosen_tokens(const OpCall& call) {
  const at::Tensor& places = call.input(0);
  const std::int64_t tokens = places.size(1);
  const at::Tensor numbers = at::arange(tokens, places.options().dtype(at::kLong)).expand(places.sizes());
  const at::Tensor behind_all = at::full_like(numbers, tokens);
  return std::get<0>(at::sort(at::where(places >= 0, numbers, behind_all), 1))
      .narrow(1, 0, call.output_shape()[1]);
}

at::Tensor take_tokens(const OpCall& call) {
  const at::Tensor &x = call.input(0), &tokens = call.input(1);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[1] = tokens.size(1);
  return x.gather(1, index_of_rows(tokens, at::zeros(shape, tokens.options())));
}

at::Tensor spread_tokens(const OpCall& call) {
  const at::Tensor &x = call.input(0), &tokens = call.input(1);
  return at::zeros(call.output_shape(), x.options()).scatter(1, index_of_rows(tokens, x), x);
}

at::Tensor gate_rows(const OpCall& call) {
  return call.input(0) * at::sigmoid(call.input(1)).unsqueeze(-1);
}

// -log of the probability that sigmoid(logit) gives to what was chosen.
at::Tensor choice_loss(const OpCall& call) {
  const at::Tensor& logits = call.input(0);
  return at::softplus(at::where(call.input(1) >= 0, -logits, logits), 1, 1000);
}

}  // namespace hydrac::oracle
