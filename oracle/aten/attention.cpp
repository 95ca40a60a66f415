// Attention with grouped queries, twice: by its definition, and as the fastest form that the LibTorch at hand
// has.
#include <ATen/TensorOperators.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>

#include "oracle/aten/autocast.h"
#include "oracle/aten/fp8_attention.h"
#include "oracle/aten/op.h"
#include "oracle/job/error.h"
#include "oracle/job/random.h"

#define HYDRAC_HAS_SDPA (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1))
#if HYDRAC_HAS_SDPA
#include <ATen/ops/scaled_dot_product_attention.h>
#endif

namespace hydrac::oracle {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// x[B, T, KV, D] -> [B, H, T, D], head h being a copy of head h / (H / KV).
at::Tensor spread_heads(const at::Tensor& x, std::int64_t heads) {
  return x.transpose(1, 2).repeat_interleave(heads / x.size(2), 1);
}

// How many tokens a query sees, its own among them; `length` where nothing hides those long before it.
std::int64_t window_of(const OpCall& call, std::int64_t length) {
  const auto window = static_cast<std::int64_t>(call.attr("window", 0));
  const auto period = static_cast<std::int64_t>(call.attr("window_period", 0));
  const bool sees_all_before = period > 0 && (call.layer + 1) % period == 0;
  return window == 0 || sees_all_before ? length : std::min(window, length);
}

// [T, T], true where a query (row) may not see a key; [B, 1, T, T] with documents, [B, T, 2] of first tokens
// and ends: tokens of which one's document does not begin where the other's does.
at::Tensor hidden(const OpCall& call, std::int64_t length, const at::TensorOptions& options) {
  const at::Tensor all = at::ones({length, length}, options.dtype(at::kBool));
  at::Tensor result = at::zeros_like(all);
  if (call.attr("causal") != 0) result = at::bitwise_or(all.triu(1), all.tril(-window_of(call, length)));
  const at::Tensor documents = call.optional_input(4);
  if (!documents.defined()) return result;
  const at::Tensor begins = documents.select(-1, 0);
  return at::bitwise_or(result, begins.unsqueeze(2).ne(begins.unsqueeze(1)).unsqueeze(1));
}

// The results of a forward pass in 8 bits, out and lse, with the gradients that a backward pass in 16 bits
// makes of them: weights exp(scores - lse), and for each query d_out . out, which the gradient of the row's
// sum, whose value is left out, brings.
at::Tensor with_wide_gradients(const Fp8Attended& forward, const at::Tensor& scores, const at::Tensor& values,
                               at::ScalarType type) {
  const at::Tensor out = round_values(forward.out, type), weights = at::exp(scores - forward.lse);
  const at::Tensor product = at::matmul(round_values(weights, type), values),
                   row = weights.sum(-1, /*keepdim=*/true);
  return forward.out + (product - product.detach()) - out * (row - row.detach());
}

// Under autocast as in FlashAttention: scores and softmax in float32; what the two matmuls of the forward
// pass and the four of the backward pass multiply is 16 bits wide: the weights on the way forth, the scores'
// gradient back.
at::Tensor by_definition(const OpCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         double p) {
  const std::int64_t length = q.size(1), heads = q.size(2);
  const at::Tensor keys = spread_heads(k, heads), values = spread_heads(v, heads);
  at::Tensor scores = at::matmul(q.transpose(1, 2), keys.transpose(2, 3)) * call.attr("scale");
  if (call.autocast) scores = round_gradient(scores, *call.autocast);
  if (const double cap = call.attr("softcap", 0); cap > 0) scores = at::tanh(scores / cap) * cap;
  const at::Tensor unseen = hidden(call, length, q.options());
  scores = scores.masked_fill(unseen, kMinusInfinity);
  if (call.autocast && call.attr("fp8.forward", 0) != 0) {
    const Fp8Attended forward =
        fp8_attended(q.detach().transpose(1, 2), keys.detach(), values.detach(), call.attr("scale"), unseen);
    return with_wide_gradients(forward, scores, values, *call.autocast).transpose(1, 2);
  }
  at::Tensor weights = at::softmax(scores, -1);
  const auto index_of_score = [&](std::int64_t element) {
    return score_index(element / (length * length), length, element / length % length, element % length);
  };
  if (p > 0)
    weights = weights * dropout_multiplier(call, weights.sizes(), p, 3, weights.options(), index_of_score);
  if (call.autocast) weights = round_values(weights, *call.autocast);
  return at::matmul(weights, values).transpose(1, 2);
}

#if HYDRAC_HAS_SDPA

at::Tensor fastest(const OpCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   double p) {
  const bool grouped = q.size(2) != k.size(2);
  const std::int64_t length = q.size(1);
  // Its kernels know the causal mask; any other one is a tensor.
  const bool has_mask = window_of(call, length) < length || call.optional_input(4).defined();
  c10::optional<at::Tensor> visible;
  if (has_mask) visible = at::logical_not(hidden(call, length, q.options()));
  const at::Tensor keys = grouped ? spread_heads(k, q.size(2)) : k.transpose(1, 2);
  const at::Tensor values = grouped ? spread_heads(v, q.size(2)) : v.transpose(1, 2);
  return at::scaled_dot_product_attention(q.transpose(1, 2), keys, values, visible, p,
                                          !has_mask && call.attr("causal") != 0, call.attr("scale"))
      .transpose(1, 2);
}

#else

// Without a fused kernel: two batched matmuls around a softmax. The queries of a group are rows of one
// matmul, so keys and values need no copies, and the mask rides in the first matmul's addend.
at::Tensor fastest(const OpCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   double p) {
  const std::int64_t batch = q.size(0), length = q.size(1), heads = q.size(2), dim = q.size(3);
  const std::int64_t kv_heads = k.size(2), group = heads / kv_heads;
  std::vector<at::Tensor>& tables = call.tables[&call.node];
  const bool has_window = window_of(call, length) < length;  // layers may differ
  tables.resize(2);
  at::Tensor& table = tables[has_window];
  if (!table.defined()) {
    const at::Tensor mask = at::zeros({length, length}, q.options())
                                .masked_fill(hidden(call, length, q.options()), kMinusInfinity);
    table = mask.repeat({group, 1});
  }
  const at::Tensor rows = q.reshape({batch, length, kv_heads, group, dim})
                              .permute({0, 2, 3, 1, 4})
                              .reshape({batch * kv_heads, group * length, dim});
  const at::Tensor keys = k.transpose(1, 2).reshape({batch * kv_heads, length, dim});
  const at::Tensor values = v.transpose(1, 2).reshape({batch * kv_heads, length, dim});
  at::Tensor weights = at::baddbmm(table, rows, keys.transpose(1, 2), 1, call.attr("scale")).softmax(-1);
  if (p > 0) weights = at::dropout(weights, p, /*train=*/true);
  return weights.bmm(values)
      .reshape({batch, kv_heads, group, length, dim})
      .permute({0, 3, 1, 2, 4})
      .reshape({batch, length, heads, dim});
}

#endif

}  // namespace

at::Tensor attention(const OpCall& call) {
  const at::Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  if (q.dim() != 4 || k.dim() != 4 || k.sizes() != v.sizes() || q.size(0) != k.size(0) ||
      q.size(1) != k.size(1) || q.size(3) != k.size(3) || q.size(2) % k.size(2) != 0)
    throw JobError("q must be [B, T, H, D], k and v [B, T, KV, D] with a KV that divides H");
  const double p = call.attr("dropout", 0);
  // LibTorch has no fused kernel that caps scores, and `fastest` may keep one mask for all steps.
  const bool plainly = call.mode == Mode::reference || call.attr("softcap", 0) > 0 ||
                       (!HYDRAC_HAS_SDPA && call.optional_input(4).defined());
  return plainly ? by_definition(call, q, k, v, p) : fastest(call, q, k, v, p);
}

}  // namespace hydrac::oracle
