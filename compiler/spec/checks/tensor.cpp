// Needs of ranks that share layers (parallel.tensor): sizes that divide, and nothing that works on whole
// matrices.
#include <fmt/format.h>

#include <numeric>
#include <string>
#include <vector>

#include "diag/suggest.h"
#include "spec/checks/check.h"
#include "spec/checks/divisors.h"

namespace hydrac::spec {

namespace {

using diag::Kind;

constexpr const char* kTensor = "parallel.tensor";

std::string words(const std::vector<int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const int64_t number : numbers) texts.push_back(std::to_string(number));
  return diag::one_of(texts);
}

// Each rank has equally many heads, of both kinds, and columns of the mlp.
void check_divisions(Draft& draft) {
  const auto& m = draft.spec.model;
  const int64_t ranks = draft.spec.parallel.tensor;
  const char *heads = "model.num_attention_heads", *kv_heads = "model.num_key_value_heads",
             *inner = "model.intermediate_size";
  if (!draft.usable({heads, kv_heads, inner})) return;
  const int64_t common =
      std::gcd(std::gcd(m.num_attention_heads, m.num_key_value_heads), m.intermediate_size);
  const auto divide = [&](const char* key, const char* name, int64_t size) {
    if (size % ranks == 0) return;
    draft.report(Kind::tensor_divides, {kTensor, key},
                 fmt::format("parallel.tensor ({}) must divide {} ({})", ranks, name, size),
                 fmt::format("of this model's sizes {} would fit", words(divisors(common))));
  };
  divide(heads, "num_attention_heads", m.num_attention_heads);
  divide(kv_heads, "num_key_value_heads", m.num_key_value_heads);
  divide(inner, "intermediate_size", m.intermediate_size);
}

struct Refusal {
  bool applies;
  const char* key;
  const char* what;     // ranks that share layers cannot
  const char* instead;  // what to write
};

std::vector<Refusal> refusals(const SpecKeys& spec) {
  const auto& o = spec.optimizations;
  return {
      {spec.parallel.zero > 1 && spec.parallel.data > 1, "parallel.zero",
       "share gradients or weights too, only the update", "parallel.zero: 1"},
      {spec.model.attention_kind != AttentionKind::gqa, "model.attention_kind",
       "divide compressed attention, whose convolutions mix heads", "model.attention_kind: gqa"},
      {spec.model.qk_norm && spec.model.qk_norm_scope == QkNormScope::projection, "model.qk_norm_scope",
       "normalize over heads of which each has a part", "model.qk_norm_scope: head"},
      {has_recursions(spec), "model.mor.recursions",
       "mix recursions, whose router's losses are of all tokens", "model.mor.recursions: 1"},
      {spec.train.optimizer.name == Optimizer::muon, "train.optimizer.name",
       "orthogonalize matrices of which each has a part", "another optimizer"},
      {spec.adapter.type != AdapterType::none && spec.adapter.base == AdapterBase::nf4, "adapter.base",
       "keep parts of matrices as 4-bit codes, whose blocks are of whole ones", "adapter.base: compute"},
      {o.precision == Precision::fp8, "optimizations.precision",
       "compute in fp8, whose scales are of whole tensors", "optimizations.precision: bf16"},
      {o.loss != LossKernel::materialized && spec.model.head == Head::language_model, "optimizations.loss",
       "compute the head in parts of the rows", "optimizations.loss: materialized"},
      {o.optimizer_state == StateType::int8, "optimizations.optimizer_state",
       "keep moments in 8 bits, whose blocks are of whole tensors", "optimizations.optimizer_state: bf16"},
      {o.offload.activations, "optimizations.offload.activations", "keep activations in the host's memory",
       "optimizations.offload.activations: false"},
      {o.offload.optimizer_state.any(), "optimizations.offload.optimizer_state",
       "keep moments in the host's memory", "optimizations.offload.optimizer_state: false"},
      {has_objective(spec), "objective.name", samples_replies(spec) ? "sample replies" : "learn from pairs",
       "objective.name: none"},
      {spec.parallel.exchange == Exchange::copies, "parallel.exchange", "exchange numbers by copies",
       "parallel.exchange: nccl"},
  };
}

}  // namespace

void check_tensor(Draft& draft) {
  if (!draft.usable({kTensor}) || draft.spec.parallel.tensor == 1) return;
  check_divisions(draft);
  for (const Refusal& refusal : refusals(draft.spec)) {
    if (!refusal.applies || !draft.usable({refusal.key})) continue;
    draft.report(Kind::tensor_unsupported, {refusal.key, kTensor},
                 fmt::format("ranks that share layers (parallel.tensor: {}) cannot {}",
                             draft.spec.parallel.tensor, refusal.what),
                 fmt::format("write {}, or parallel.tensor: 1", refusal.instead));
  }
}

}  // namespace hydrac::spec
