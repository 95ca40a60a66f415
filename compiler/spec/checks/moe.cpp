// Mixture of experts: blocks of several mlps.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "spec/checks/check.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

constexpr const char* kExperts = "model.moe.experts";

void check_top_k(Draft& draft) {
  const auto& moe = draft.spec.model.moe;
  if (!draft.usable({"model.moe.top_k"}) || moe.top_k <= moe.experts) return;
  draft.report(Kind::moe_top_k, {"model.moe.top_k", kExperts},
               fmt::format("a token cannot take {} of {} experts", moe.top_k, moe.experts),
               fmt::format("write {} or less", moe.experts));
}

struct RefusedWithExperts {
  bool applies;
  const char* key;
  std::string what;
  std::string instead;
};

std::vector<RefusedWithExperts> refused_with_experts(const Spec& spec) {
  const auto& m = spec.model;
  return {{routes_tokens(spec), "model.mod.capacity",
           "a layer routes tokens to experts (model.moe) or past itself (model.mod), not both",
           "write capacity: 0"},
          {has_recursions(spec), "model.mor.recursions",
           "tokens take passes through one mlp (model.mor) or several mlps (model.moe), not both",
           "write recursions: 1"},
          {m.mlp_bias, "model.mlp_bias", "experts have no biases", "write mlp_bias: false"},
          {spec.parallel.tensor > 1, "parallel.tensor",
           "ranks that share layers (parallel.tensor) cannot divide experts", "write tensor: 1"},
          {spec.optimizations.precision == Precision::fp8, "optimizations.precision",
           "experts' matmuls have no 8-bit form", "write precision: bf16"},
          {spec.adapter.type != AdapterType::none && spec.adapter.base == AdapterBase::nf4, "adapter.base",
           "experts are not kept as 4-bit codes", "write base: compute"}};
}

}  // namespace

void check_moe(Draft& draft) {
  if (!draft.usable({kExperts}) || !has_experts(draft.spec)) return;
  check_top_k(draft);
  for (const RefusedWithExperts& refusal : refused_with_experts(draft.spec))
    if (refusal.applies && draft.usable({refusal.key}))
      draft.report(Kind::moe_unsupported, {refusal.key, kExperts}, refusal.what,
                   refusal.instead + ", or remove model.moe");
}

}  // namespace hydrac::spec
