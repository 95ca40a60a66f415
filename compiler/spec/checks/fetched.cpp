// Weights that are elsewhere when a layer is about to read them: on other ranks (parallel.zero: 3), or in the
// host's memory (optimizations.offload.weights).
#include <fmt/format.h>

#include <string>
#include <vector>

#include "spec/checks/check.h"
#include "targets/target.h"

namespace hydrac::spec {

namespace {

using diag::Kind;

struct RefusedFetch {
  bool applies;
  const char* key;
  std::string what;  // and why
  std::string instead;
};

void report_fetched(Draft& draft, Kind kind, const char* asked, const std::vector<RefusedFetch>& refusals) {
  for (const RefusedFetch& refusal : refusals)
    if (refusal.applies && draft.usable({refusal.key}))
      draft.report(kind, {asked, refusal.key}, refusal.what, refusal.instead);
}

// Layers that gather their weights read nothing that is made of whole ones.
void check_shared(Draft& draft) {
  const char* zero = "parallel.zero";
  const auto& spec = draft.spec;
  if (!draft.usable({zero, "parallel.data"}) || spec.parallel.zero < 3 || spec.parallel.data == 1) return;
  const std::string start = "ranks cannot share weights (parallel.zero: 3) ",
                    instead = "write parallel.zero: 2";
  report_fetched(
      draft, Kind::zero_unsupported, zero,
      {{spec.optimizations.precision == Precision::fp8, "optimizations.precision",
        start + "of 8 bits, which are made of whole ones after each update", instead},
       {samples_replies(spec), "objective.name",
        start + "while each samples replies of its own, which are of other lengths", instead},
       {spec.adapter.type != AdapterType::none && spec.adapter.base == AdapterBase::nf4, "adapter.base",
        start + "of 4-bit codes, which every rank has whole", instead + ", or adapter.base: compute"}});
}

// Copies in another type than parameters have can be in another memory.
void check_offloaded(Draft& draft) {
  const char* weights = "optimizations.offload.weights";
  const auto& spec = draft.spec;
  const auto& o = spec.optimizations;
  if (!draft.usable({weights, "target"}) || o.offload.weights == 0 || targets::find(spec.target)->is_cpu())
    return;
  const std::string start = "the host's memory holds no weights ", instead = "write offload.weights: 0";
  const auto or_else = [&](const char* other) { return fmt::format("{}, or {}", instead, other); };
  report_fetched(
      draft, Kind::option_unsupported, weights,
      {{draft.usable({"model.num_hidden_layers"}) && o.offload.weights > spec.model.num_hidden_layers,
        "model.num_hidden_layers",
        fmt::format("offload.weights is {}, and the model has {} layers", o.offload.weights,
                    spec.model.num_hidden_layers),
        fmt::format("write {} at most", spec.model.num_hidden_layers)},
       {computes_in_32_bits(o.precision), "optimizations.precision",
        start + "that matmuls read in 32 bits: they are what the update changes",
        or_else("precision: bf16 or fp16")},
       {o.precision == Precision::fp8, "optimizations.precision",
        start + "of 8 bits, which the GPU makes of those of 16", or_else("precision: bf16")},
       {o.weights == WeightType::bf16, "optimizations.weights",
        start + "that the update itself changes in 16 bits", or_else("weights: fp32")},
       {spec.adapter.type != AdapterType::none && spec.adapter.base == AdapterBase::nf4, "adapter.base",
        start + "that are kept as 4-bit codes", or_else("adapter.base: compute")},
       {spec.train.optimizer.name == Optimizer::muon, "train.optimizer.name",
        start + "beside muon, which updates the matrices of all layers by one matmul",
        or_else("another optimizer")},
       {spec.parallel.data > 1 && spec.parallel.zero > 0, "parallel.zero", start + "that ranks have parts of",
        or_else("parallel.zero: 0")},
       {spec.parallel.tensor > 1, "parallel.tensor", start + "that ranks have parts of",
        or_else("parallel.tensor: 1")}});
}

}  // namespace

void check_fetched(Draft& draft) {
  check_shared(draft);
  check_offloaded(draft);
}

}  // namespace hydrac::spec
