// Every operation but attention, rope, convolutions and users' functions, in terms of ATen, and the table of
// all.
#include <ATen/TensorOperators.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>

#include "oracle/aten/op.h"
#include "oracle/job/error.h"

#define HYDRAC_HAS_RMS_NORM \
  (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4))
#if HYDRAC_HAS_RMS_NORM
#include <ATen/ops/rms_norm.h>
#endif

namespace hydrac::oracle {
namespace {

at::Tensor embedding(const OpCall& call) {
  return at::embedding(call.input(1), call.input(0));
}

at::Tensor position_embedding(const OpCall& call) {
  const at::Tensor &x = call.input(0), positions = call.optional_input(2);
  return x + (positions.defined() ? at::embedding(call.input(1), positions)
                                  : call.input(1).narrow(0, 0, x.size(1)));
}

// x may end in several dimensions that are one row of the matmul (heads and head_dim): what the output's
// leading dimensions leave over is the row.
at::Tensor linear(const OpCall& call) {
  std::vector<std::int64_t> shape = call.output_shape();
  if (shape.empty()) throw JobError("the output is a scalar");
  shape.back() = call.input(1).size(1);
  const at::Tensor x = call.input(0).reshape(shape);
  if (call.autocast && call.node.attrs.contains("fp8.forward")) return fp8_linear(call, x);
  return at::linear(x, call.input(1), call.optional_input(2));
}

// A norm's factor of each column.
at::Tensor norm_factor(const OpCall& call) {
  const double offset = call.attr("offset", 0);
  return offset == 0 ? call.input(1) : call.input(1) + offset;
}

at::Tensor layernorm(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  return at::layer_norm(x, x.size(-1), norm_factor(call), call.optional_input(2), call.attr("eps"));
}

at::Tensor rmsnorm(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  const double eps = call.attr("eps");
  const at::Tensor weight = norm_factor(call);
#if HYDRAC_HAS_RMS_NORM
  if (call.mode == Mode::training) return at::rms_norm(x, x.size(-1), weight, eps);
#endif
  return x * at::rsqrt(x.square().mean(-1, true) + eps) * weight;
}

at::Tensor split_heads(const OpCall& call) {
  const auto heads = static_cast<std::int64_t>(call.attr("heads", 0));  // left out: one, without a dimension
  const auto head_dim = static_cast<std::int64_t>(call.attr("head_dim"));
  const auto offset = static_cast<std::int64_t>(call.attr("offset"));
  if (call.attr("by_head", 0) != 0)
    return call.input(0).unflatten(-1, {heads, -1}).narrow(-1, offset, head_dim);
  const at::Tensor part = call.input(0).narrow(-1, offset, std::max<std::int64_t>(heads, 1) * head_dim);
  return heads == 0 ? part : part.unflatten(-1, {heads, head_dim});
}

at::Tensor gelu(const OpCall& call) {
  return at::gelu(call.input(0));
}
at::Tensor gelu_tanh(const OpCall& call) {
  return at::gelu(call.input(0), "tanh");
}
at::Tensor silu(const OpCall& call) {
  return at::silu(call.input(0));
}
at::Tensor relu2(const OpCall& call) {
  return at::relu(call.input(0)).square();
}

at::Tensor swiglu(const OpCall& call) {
  const std::vector<at::Tensor> halves = at::chunk(call.input(0), 2, -1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor geglu(const OpCall& call) {
  const std::vector<at::Tensor> halves = at::chunk(call.input(0), 2, -1);
  return at::gelu(halves[0], call.attr("tanh") != 0 ? "tanh" : "none") * halves[1];
}

at::Tensor add(const OpCall& call) {
  const at::Tensor &a = call.input(0), &b = call.input(1);
  if (a.sizes() != b.sizes()) throw JobError("the inputs have different shapes");
  return a + b;
}

at::Tensor scale(const OpCall& call) {
  return call.input(0) * call.attr("factor");
}

at::Tensor bias_add(const OpCall& call) {
  return call.input(0) + call.input(1);
}

at::Tensor dropout(const OpCall& call) {
  const at::Tensor& x = call.input(0);
  const double p = call.attr("p");
  if (p == 0) return x;
  if (call.mode == Mode::training) return at::dropout(x, p, /*train=*/true);
  const auto itself = [](std::int64_t element) { return static_cast<std::uint64_t>(element); };
  return x * dropout_multiplier(call, x.sizes(), p, 1, x.options(), itself);
}

at::Tensor cross_entropy(const OpCall& call) {
  const at::Tensor& targets = call.input(1);
  const double cap = call.attr("softcap", 0);
  const at::Tensor logits = cap > 0 ? at::tanh(call.input(0) / cap) * cap : call.input(0);
  const at::Tensor rows = at::cross_entropy_loss(
      logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}), {}, at::Reduction::None,
      static_cast<std::int64_t>(call.attr("ignore_index", -100)), call.attr("label_smoothing", 0));
  return rows.reshape(targets.sizes());
}

at::Tensor token_score(const OpCall& call) {
  const at::Tensor x = call.attr("detached", 0) != 0 ? call.input(0).detach() : call.input(0);
  const at::Tensor score = (x * call.input(1)).sum(-1), bias = call.optional_input(2);
  return bias.defined() ? score + bias : score;
}

at::Tensor mean_loss(const OpCall& call) {
  const at::Tensor &rows = call.input(0), weights = call.optional_input(2);
  return (weights.defined() ? rows * weights : rows).sum() * call.input(1).reshape({});
}

// Step n = 1, 2, ... has n / warmup_steps of the weight at most; input 1 counts the steps before it.
at::Tensor auxiliary_loss(const OpCall& call) {
  const double warmup = call.attr("warmup_steps");
  double weight = call.attr("weight");
  if (warmup > 0) weight *= std::min(1.0, (call.input(1).item<double>() + 1) / warmup);
  return call.input(0).sum() * weight;
}

at::Tensor mse(const OpCall& call) {
  const at::Tensor &prediction = call.input(0), &targets = call.input(1);
  if (prediction.sizes() != targets.sizes()) throw JobError("the inputs have different shapes");
  return (prediction - targets).masked_fill(at::isnan(targets), 0).square().mean(-1);
}

const std::vector<OpDefinition>& op_table() {
  static const std::vector<OpDefinition> table = {
      {"embedding", 2, {}, {}, embedding},
      {"position_embedding", 2, {}, {}, position_embedding, Casting::widest, 1},
      {"linear",
       3,
       {},
       {"fp8.forward", "fp8.input_gradient", "fp8.weight_gradient", "fp8.gradient_start"},
       linear,
       Casting::narrow},
      {"layernorm", 3, {"eps"}, {"offset"}, layernorm, Casting::float32},
      {"rmsnorm", 2, {"eps"}, {"offset"}, rmsnorm},
      {"split_heads", 1, {"offset", "head_dim"}, {"heads", "by_head"}, split_heads},
      {"rope",
       3,
       {"theta"},
       {"interleaved", "period", "local_theta", "scaling.factor", "scaling.pair_factors.",
        "scaling.is_linear", "scaling.low_freq_factor", "scaling.high_freq_factor", "scaling.beta_fast",
        "scaling.beta_slow", "scaling.truncate", "scaling.attention_factor",
        "scaling.original_max_position_embeddings"},
       rope,
       Casting::float32,
       1},
      {"attention",
       4,
       {"causal", "scale"},
       {"dropout", "site", "window", "window_period", "softcap", "documents", "fp8.forward"},
       attention,
       Casting::narrow,
       1},
      {"causal_conv", 2, {"taps", "first"}, {}, causal_conv, Casting::narrow, 1},
      {"value_shift", 1, {}, {}, value_shift, Casting::widest, 1},
      {"block_diagonal", 1, {"groups", "first_column"}, {}, block_diagonal},
      {"adapter_matrix",
       1,
       {"scale", "first_0", "rows_0"},
       {"first_1", "rows_1", "first_2", "rows_2", "first_3", "rows_3"},
       adapter_matrix},
      {"head_sum", 1, {"factor"}, {}, head_sum},
      {"scale", 1, {"factor"}, {}, scale},
      {"scale_heads", 1, {"factor"}, {}, scale_heads},
      {"l2norm", 2, {"eps"}, {}, l2norm},
      {"gelu", 1, {}, {}, gelu},
      {"gelu_tanh", 1, {}, {}, gelu_tanh},
      {"silu", 1, {}, {}, silu},
      {"relu2", 1, {}, {}, relu2, Casting::float32},
      {"swiglu", 1, {}, {}, swiglu},
      {"geglu", 1, {"tanh"}, {}, geglu},
      {"add", 2, {}, {}, add},
      {"bias_add", 2, {}, {}, bias_add},
      {"recursion_depth", 2, {"recursions"}, {}, recursion_depth, Casting::float32},
      {"recursion_weight", 2, {"recursions"}, {}, recursion_weight, Casting::float32},
      {"masked_add", 3, {"pass"}, {}, masked_add},
      {"straight_through", 2, {}, {}, straight_through},
      {"recursion_loss", 1, {"depth", "variance", "logit"}, {}, recursion_loss, Casting::float32},
      {"dropout", 2, {"p"}, {"site"}, dropout},
      {"cross_entropy",
       2,
       {},
       {"label_smoothing", "ignore_index", "softcap"},
       cross_entropy,
       Casting::float32},
      {"token_score", 3, {}, {"detached"}, token_score, Casting::float32},
      {"mean_loss", 2, {}, {}, mean_loss, Casting::float32, 1},
      {"auxiliary_loss", 2, {"weight", "warmup_steps"}, {}, auxiliary_loss, Casting::float32},
      {"mse", 2, {}, {}, mse, Casting::float32},
      {"choose_tokens", 2, {"chosen"}, {}, choose_tokens},
      {"chosen_tokens", 1, {}, {}, chosen_tokens},
      {"take_tokens", 2, {}, {}, take_tokens},
      {"spread_tokens", 2, {}, {}, spread_tokens},
      {"choice_loss", 2, {}, {}, choice_loss, Casting::float32},
      {"gate_rows", 2, {}, {}, gate_rows, Casting::narrow},
      {"router_scores", 1, {"sigmoid"}, {}, router_scores, Casting::float32},
      {"choose_experts", 2, {}, {}, choose_experts},
      {"expert_weights", 2, {"normalize", "factor"}, {}, expert_weights, Casting::float32},
      {"expert_inputs", 2, {}, {}, expert_inputs},
      {"grouped_matmul", 3, {}, {}, grouped_matmul, Casting::narrow},
      {"combined_rows", 3, {}, {}, combined_rows},
      {"router_loss", 3, {"balance", "z"}, {}, router_loss, Casting::float32},
      {"activation", 1, {}, {}, function_activation},
      {"gated", 1, {}, {}, function_gated},
      {"pointwise_loss", 2, {}, {}, function_loss, Casting::float32},
      {"pairwise_cosine_distance", 1, {"eps"}, {}, pairwise_cosine_distance, Casting::float32},
      {"pair_sum", 2, {"rejected"}, {}, pair_sum, Casting::float32},
      {"pair_tokens", 2, {"rejected"}, {}, pair_tokens, Casting::float32},
      {"dpo", 6, {"beta", "gamma", "label_smoothing"}, {}, dpo, Casting::float32},
      {"ipo", 6, {"beta", "gamma", "label_smoothing"}, {}, ipo, Casting::float32},
      {"simpo", 6, {"beta", "gamma", "label_smoothing"}, {}, simpo, Casting::float32},
      {"orpo", 6, {"beta", "gamma", "label_smoothing"}, {}, orpo, Casting::float32},
      {"apo_zero", 6, {"beta", "gamma", "label_smoothing"}, {}, apo_zero, Casting::float32},
      {"apo_down", 6, {"beta", "gamma", "label_smoothing"}, {}, apo_down, Casting::float32},
  };
  return table;
}

// A name that ends in a dot is the beginning of many.
bool contains(const std::vector<const char*>& names, const std::string& name) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view known) {
    return name == known || (known.ends_with('.') && name.starts_with(known));
  });
}

}  // namespace

const OpDefinition& find_op(const Node& node) {
  const auto& table = op_table();
  const auto op =
      std::find_if(table.begin(), table.end(), [&](const auto& known) { return node.op == known.name; });
  if (op == table.end()) throw JobError(fmt::format("unknown op \"{}\"", node.op));
  for (const auto& [name, value] : node.attrs)
    if (!contains(op->required, name) && !contains(op->optional, name))
      throw JobError(fmt::format("unknown attribute \"{}\" of op \"{}\"", name, node.op));
  for (const char* name : op->required)
    if (!node.attrs.count(name))
      throw JobError(fmt::format("op \"{}\" has no attribute \"{}\"", node.op, name));
  const std::size_t most = op->inputs + op->more_inputs;
  if (node.inputs.size() < op->inputs || node.inputs.size() > most)
    throw JobError(fmt::format("op \"{}\" has {} inputs; it takes {}{} (null for one left out)", node.op,
                               node.inputs.size(), op->inputs,
                               most > op->inputs ? fmt::format(" to {}", most) : ""));
  return *op;
}

}  // namespace hydrac::oracle
