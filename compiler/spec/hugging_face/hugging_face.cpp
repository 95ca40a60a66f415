#include "spec/hugging_face/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace hydrac::spec {
namespace {

// The keys of families' rules; those that tell families apart best come first. The family that fits best is
// the one whose first broken rule comes last.
constexpr auto kKeys = std::to_array<std::string_view>({
    "model.input",
    "model.head",
    "model.head_bias",
    "model.attention_kind",
    "model.mor.recursions",
    "model.mod.capacity",
    "model.moe.experts",
    "model.block",
    "model.norm",
    "model.norm_bias",
    "model.position",
    "model.rope_interleave",
    "model.partial_rotary_factor",
    "model.no_rope_pattern",
    "model.rope_local_theta",
    "model.rope_scaling.factor",
    "model.hidden_act",
    "model.packed_weights",
    "model.norm_placement",
    "model.norm_offset",
    "model.embedding_scale",
    "model.residual_scale",
    "model.attention_scale",
    "model.attention_softcap",
    "model.logit_scale",
    "model.logit_softcap",
    "model.qk_norm",
    "model.qk_norm_scope",
    "model.num_key_value_heads",
    "model.head_dim",
    "model.moe.scoring",
    "model.moe.routed_scale",
    "model.moe.normalize_top_k",
    "model.moe.intermediate_size",
    "model.mlp_bias",
    "model.attention_bias",
    "model.attention_output_bias",
    "model.sliding_window",
    "model.sliding_window_pattern",
    "model.num_attention_heads",
    "model.initializer_range",
    "data.tokenizer",
});

size_t rank_of(const FamilyRow& rule) {
  return static_cast<size_t>(std::ranges::find(kKeys, rule.ours) - kKeys.begin());
}

// The rules of a family, by rank.
std::vector<const FamilyRow*> rules_of(const Family& family) {
  std::vector<const FamilyRow*> rules;
  for (const FamilyRow& row : family.rows)
    if (row.holds != nullptr) rules.push_back(&row);
  std::ranges::stable_sort(rules, {}, [](const FamilyRow* rule) { return rank_of(*rule); });
  return rules;
}

bool is_same(const FamilyRow& a, const FamilyRow& b) {
  return a.ours == b.ours && a.has == b.has && b.holds != nullptr;
}

// "Qwen2 has rope", "Qwen2 and Llama have rope", "all have rope"
std::string sentence_of(const FamilyRow& rule) {
  std::vector<std::string_view> names;
  for (const Family& family : families())
    if (std::ranges::any_of(family.rows, [&](const FamilyRow& row) { return is_same(rule, row); }))
      names.push_back(family.name);
  if (names.size() == families().size()) return fmt::format("all families have {}", rule.has);
  if (names.size() == 1) return fmt::format("{} has {}", names[0], rule.has);
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} and {} have {}", fmt::join(names, ", "), last, rule.has);
}

}  // namespace

HuggingFaceModel hugging_face_model(const Spec& spec) {
  const FamilyRow* broken = nullptr;  // of the family that fits best
  for (const Family& family : families()) {
    const std::vector<const FamilyRow*> rules = rules_of(family);
    const auto first = std::ranges::find_if(rules, [&](const FamilyRow* r) { return !r->holds(spec, *r); });
    if (first == rules.end()) return {&family, "", ""};
    if (broken == nullptr || rank_of(**first) > rank_of(*broken)) broken = *first;
  }
  return {nullptr, std::string(broken->ours), sentence_of(*broken)};
}

const Family& family_of(const Spec& spec) {
  const Family* family = hugging_face_model(spec).family;
  return family != nullptr ? *family : own_family();
}

std::string describe(const HuggingFaceModel& model, bool adapters) {
  if (model.family != nullptr)
    return fmt::format("checkpoints are {}Hugging Face's {}: {} loads them", adapters ? "adapters of " : "",
                       model.family->model_type, adapters ? "PEFT" : "transformers");
  return fmt::format("checkpoints {}, which transformers cannot load, because of {}: {}",
                     adapters ? "are adapters of a model" : "have model_type hydrac", model.key,
                     model.reason);
}

std::string hugging_face_rules() {
  std::vector<const FamilyRow*> all;
  for (const Family& family : families())
    for (const FamilyRow* rule : rules_of(family))
      if (std::ranges::none_of(all, [&](const FamilyRow* known) { return is_same(*known, *rule); }))
        all.push_back(rule);
  std::ranges::stable_sort(all, {}, [](const FamilyRow* rule) { return rank_of(*rule); });
  std::string table = "| key | |\n| --- | --- |\n";
  for (const FamilyRow* rule : all) table += fmt::format("| `{}` | {} |\n", rule->ours, sentence_of(*rule));
  return table;
}

}  // namespace hydrac::spec
