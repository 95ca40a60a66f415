// Mixture of depths: layers that compute some tokens of a sequence.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "spec/checks/check.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

constexpr const char* kCapacity = "model.mod.capacity";

void check_layers(Draft& draft) {
  const auto& m = draft.spec.model;
  if (!draft.usable({"model.mod.every", "model.num_hidden_layers"}) || m.num_hidden_layers % m.mod.every == 0)
    return;
  draft.report(
      Kind::mod_divides, {"model.mod.every", "model.num_hidden_layers"},
      fmt::format("every ({}) must divide num_hidden_layers ({}), so that the last layer of each group is "
                  "routed",
                  m.mod.every, m.num_hidden_layers),
      fmt::format("{} layers would fit", (m.num_hidden_layers / m.mod.every + 1) * m.mod.every));
}

void check_capacity(Draft& draft) {
  if (!draft.usable({"train.sequence_len"})) return;
  if (draft.spec.model.mod.capacity * static_cast<double>(draft.spec.train.sequence_len) >= 1) return;
  draft.report(Kind::mod_without_tokens, {kCapacity, "train.sequence_len"},
               fmt::format("capacity ({}) of a sequence of {} tokens is less than a token",
                           draft.spec.model.mod.capacity, draft.spec.train.sequence_len),
               "raise it; 0.125 and 0.5 are usual");
}

// True if tokens see others by something else than attention: convolutions, shifted values.
bool mixes_tokens(const Spec& spec) {
  const auto& parts = spec.model.ccgqa;
  return spec.model.attention_kind == AttentionKind::ccgqa &&
         (parts.head_conv || parts.channel_conv || parts.value_shift);
}

struct Refused {
  bool applies;
  const char* key;
  std::string what;
  std::string instead;
};

void check_others(Draft& draft) {
  const auto& spec = draft.spec;
  const std::string or_remove = ", or remove model.mod";
  const std::vector<Refused> refusals = {
      {mixes_tokens(spec), "model.attention_kind",
       "a routed layer has some tokens of a sequence, and ccgqa's convolutions and value_shift read the ones "
       "before",
       "write attention_kind: gqa" + or_remove},
      {has_recursions(spec), "model.mor.recursions",
       "a model routes tokens through layers (model.mod) or through passes of them (model.mor), not both",
       "write recursions: 1" + or_remove},
      {spec.model.norm_placement != NormPlacement::input, "model.norm_placement",
       "a routed layer adds both of its branches at once, from norms of their inputs",
       "write norm_placement: input" + or_remove},
      {spec.model.sliding_window > 0, "model.sliding_window",
       "a routed layer has some tokens of a sequence, among which a window would reach further",
       "write sliding_window: 0" + or_remove},
      {rope_period(spec.model) > 0, "model.no_rope_pattern",
       "the last layer of each group is routed, and those without rope are counted one by one",
       "write no_rope_pattern: 0" + or_remove},
      {spec.data.document_mask, "data.document_mask",
       "a routed layer has some tokens of a sequence, and document_mask counts all of them",
       "write document_mask: false" + or_remove},
      {warms_sequences_up(spec), "train.sequence_warmup.steps",
       "a routed layer has some tokens of a sequence, and a warm-up cuts that into several",
       "remove sequence_warmup" + or_remove},
      {has_objective(spec), "objective.name",
       "replies are scored beside each other in a sequence, and a routed layer chooses among the tokens of "
       "all",
       "remove objective" + or_remove},
      {spec.parallel.tensor > 1, "parallel.tensor",
       "ranks that share layers (parallel.tensor) cannot route tokens yet", "write tensor: 1" + or_remove}};
  for (const Refused& refusal : refusals)
    if (refusal.applies && draft.usable({refusal.key}))
      draft.report(Kind::mod_unsupported, {refusal.key, kCapacity}, refusal.what, refusal.instead);
}

}  // namespace

void check_mod(Draft& draft) {
  if (!draft.usable({kCapacity}) || !routes_tokens(draft.spec)) return;
  check_layers(draft);
  check_capacity(draft);
  check_others(draft);
}

}  // namespace hydrac::spec
