// Layers that compute some tokens of a sequence: their choice, their rows, and the scores' part in what they add.
#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
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

}  // namespace

at::Tensor row_dot(const OpCall& call) {
  const at::Tensor x = call.attr("detached") != 0 ? call.input(0).detach() : call.input(0);
  const at::Tensor y = (x * call.input(1)).sum(-1), bias = call.optional_input(2);
  return bias.defined() ? y + bias : y;
}

// scores[B, T] -> the place of each of the `chosen` highest among these, in the order of tokens, and -1 of the
// others. Where the job says what was chosen, [layers, B, T], that is the result, and the difference is counted.
at::Tensor choose_tokens(const OpCall& call) {
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
  const at::Tensor places = call.input(0).to(at::kCPU, at::kLong).contiguous();
  at::Tensor tokens = at::zeros(call.output_shape(), at::kLong);
  const auto of = places.accessor<std::int64_t, 2>();
  auto to = tokens.accessor<std::int64_t, 2>();
  for (std::int64_t b = 0; b < places.size(0); ++b)
    for (std::int64_t t = 0; t < places.size(1); ++t)
      if (of[b][t] >= 0) to[b][of[b][t]] = t;
  return tokens.to(call.input(0).device());
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

}  // namespace hydrac::oracle
