// A mixture of experts, from its formulas. Rows of experts are in the order of the tokens' choices here,
// chosen[B, T, k] flattened.
#include <ATen/TensorOperators.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

#include <tuple>

#include "oracle/aten/op.h"
#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

at::Tensor shares(const at::Tensor& scores) {
  return scores / scores.sum(-1, true);
}

}  // namespace

at::Tensor router_scores(const OpCall& call) {
  const at::Tensor& logits = call.input(0);
  return call.attr("sigmoid") != 0 ? at::sigmoid(logits) : at::softmax(logits, -1);
}

// scores[B, T, E] -> the k experts with the highest scores, of equal ones the first. Where the job says which
// were chosen, [layers, B, T, k], they are the result, and those that are not among our own are counted.
at::Tensor choose_experts(const OpCall& call) {
  const at::Tensor scores = call.input(0).detach();
  const std::int64_t chosen = call.output_shape().back();
  if (chosen > scores.size(-1)) throw JobError("more experts are chosen than there are");
  const at::Tensor own =
      std::get<1>(at::sort(scores, /*stable=*/true, -1, /*descending=*/true)).narrow(-1, 0, chosen);
  const at::Tensor given = call.optional_input(1);
  if (!given.defined() || call.mode == Mode::training) return own;
  const at::Tensor of_layer = given.select(0, call.layer).to(at::kLong);
  if (call.choices) {
    const at::Tensor found = (of_layer.unsqueeze(-1) == own.unsqueeze(-2)).any(-1);
    call.choices->tokens += own.numel();
    call.choices->differing += found.logical_not().sum().item<std::int64_t>();
  }
  return of_layer;
}

at::Tensor expert_weights(const OpCall& call) {
  const at::Tensor scores = call.input(0).gather(-1, call.input(1));
  return call.attr("factor") * (call.attr("normalize") != 0 ? shares(scores) : scores);
}

// x[B, T, C] -> [B*T*k, C]
at::Tensor expert_inputs(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  return x.reshape({-1, x.size(-1)}).repeat_interleave(call.input(1).size(-1), 0);
}

// rows[B*T*k, K], weights[E*N, K] -> [B*T*k, N]
at::Tensor grouped_matmul(const OpCall& call) {
  const at::Tensor &rows = call.input(0), experts = call.input(2).flatten();
  const std::int64_t columns = call.output_shape().back();
  const at::Tensor weights = call.input(1).view({-1, columns, rows.size(1)});
  at::Tensor result = at::zeros({rows.size(0), columns}, rows.options());
  for (std::int64_t e = 0; e < weights.size(0); ++e) {
    const at::Tensor own = at::nonzero(experts == e).flatten();
    result = result.index_copy(0, own, at::matmul(rows.index_select(0, own), weights.select(0, e).t()));
  }
  return result;
}

at::Tensor combined_rows(const OpCall& call) {
  const at::Tensor weights = call.input(1).unsqueeze(-1);
  std::vector<std::int64_t> shape = call.input(1).sizes().vec();
  shape.push_back(-1);
  return (call.input(0).view(shape) * weights).sum(-2);
}

// balance * sum over experts of load * share + z * logsumexp(logits)^2 of each token.
at::Tensor router_loss(const OpCall& call) {
  const at::Tensor &logits = call.input(0), &scores = call.input(1);
  const at::Tensor load = at::bincount(call.input(2).flatten(), {}, scores.size(-1)).to(scores.options());
  return call.attr("balance") * (shares(scores) * load).sum(-1) +
         call.attr("z") * at::logsumexp(logits, -1).square();
}

}  // namespace hydrac::oracle
