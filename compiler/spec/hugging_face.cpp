#include "spec/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace hydrac::spec {
namespace {

enum Families : unsigned {
  kGpt2 = 1,
  kQwen3 = 2,
  kQwen2 = 4,
  kLlama = 8,
  kMistral = 16,
  kWithRope = kQwen3 | kQwen2 | kLlama | kMistral,
  kAll = kGpt2 | kWithRope,
};

struct Family {
  Families bit;
  std::string_view model_type, name;
};

// A model that fits more than one is the first: Qwen2 with zeros for its one more bias is a Llama too,
// and every Mistral without a window is one, but for what LlamaConfig refuses.
constexpr auto kFamilies = std::to_array<Family>({{kGpt2, "gpt2", "GPT-2"},
                                                  {kQwen3, "qwen3", "Qwen3"},
                                                  {kQwen2, "qwen2", "Qwen2"},
                                                  {kLlama, "llama", "Llama"},
                                                  {kMistral, "mistral", "Mistral"}});

// A property that classes of transformers have, or that their configurations insist on.
struct FamilyRule {
  unsigned families;
  std::string_view key;
  std::string_view has;  // after "have"
  bool (*holds)(const Spec&);
};

constexpr auto kFamilyRules = std::to_array<FamilyRule>({
    {kAll, "model.input", "tokens and the head of a language model",
     [](const Spec& s) { return s.model.input == Input::tokens && s.model.head == Head::language_model; }},
    {kAll, "model.hidden_act", "activations by name alone, no function of your own",
     [](const Spec& s) { return !s.model.hidden_act.function; }},
    {kAll, "model.attention_kind", "queries and keys that are neither compressed nor convolved",
     [](const Spec& s) { return s.model.attention_kind != AttentionKind::ccgqa; }},
    {kAll, "model.mor.recursions", "one pass through an mlp",
     [](const Spec& s) { return !has_recursions(s); }},
    {kAll, "model.mod.capacity", "layers that all tokens pass",
     [](const Spec& s) { return !routes_tokens(s); }},
    {kAll, "model.attention_softcap", "none", [](const Spec& s) { return s.model.attention_softcap == 0; }},
    {kAll, "model.logit_softcap", "none", [](const Spec& s) { return s.model.logit_softcap == 0; }},
    {kGpt2, "model.norm", "layernorm", [](const Spec& s) { return s.model.norm == Norm::layernorm; }},
    {kWithRope, "model.norm", "rmsnorm", [](const Spec& s) { return s.model.norm == Norm::rmsnorm; }},
    {kGpt2, "model.position", "learned positions, which may be zeros, and no rope",
     [](const Spec& s) { return s.model.position != Position::rope; }},
    {kWithRope, "model.position", "rope", [](const Spec& s) { return s.model.position == Position::rope; }},
    {kWithRope, "model.rope_interleave", "rope that turns the halves of a head together",
     [](const Spec& s) { return !s.model.rope_interleave; }},
    {kGpt2, "model.hidden_act", "an mlp without a gate",
     [](const Spec& s) { return !is_gated(s.model.hidden_act); }},
    {kWithRope, "model.hidden_act", "a gated mlp",
     [](const Spec& s) { return is_gated(s.model.hidden_act); }},
    {kGpt2 | kQwen2 | kLlama | kMistral, "model.qk_norm", "none",
     [](const Spec& s) { return !s.model.qk_norm; }},
    {kQwen3, "model.qk_norm", "it", [](const Spec& s) { return s.model.qk_norm; }},
    {kGpt2, "model.num_key_value_heads", "as many as query heads",
     [](const Spec& s) { return s.model.num_key_value_heads == s.model.num_attention_heads; }},
    {kGpt2, "model.head_dim", "hidden_size / num_attention_heads",
     [](const Spec& s) { return s.model.head_dim * s.model.num_attention_heads == s.model.hidden_size; }},
    {kQwen3 | kQwen2 | kMistral, "model.mlp_bias", "none", [](const Spec& s) { return !s.model.mlp_bias; }},
    {kQwen2, "model.attention_bias", "it, and no attention_output_bias",
     [](const Spec& s) { return s.model.attention_bias && !s.model.attention_output_bias; }},
    {kMistral, "model.attention_bias", "none, and no attention_output_bias",
     [](const Spec& s) { return !s.model.attention_bias && !s.model.attention_output_bias; }},
    {kGpt2 | kLlama, "model.sliding_window", "none",
     [](const Spec& s) { return s.model.sliding_window == 0; }},
    {kMistral, "model.sliding_window_pattern", "windows in all layers or in none",
     [](const Spec& s) { return s.model.sliding_window == 0 || s.model.sliding_window_pattern == 0; }},
    {kLlama, "model.num_attention_heads", "a divisor of hidden_size, whatever head_dim is",
     [](const Spec& s) { return s.model.hidden_size % s.model.num_attention_heads == 0; }},
    {kLlama, "model.initializer_range", "at most 1",
     [](const Spec& s) { return s.model.initializer_range <= 1; }},
    {kQwen2, "data.tokenizer", "its own splitting of text, whatever tokenizer.json says",
     [](const Spec& s) { return s.qwen2_tokenizer; }},
});

std::string family_names(unsigned families) {
  std::vector<std::string_view> list;
  for (const Family& family : kFamilies)
    if (families & family.bit) list.push_back(family.name);
  if (list.size() == 1) return std::string(list[0]);
  const std::string_view last = list.back();
  list.pop_back();
  return fmt::format("{} and {}", fmt::join(list, ", "), last);
}

// "Qwen2 has rope", "Qwen2 and Llama have rope"
std::string sentence_of(const FamilyRule& rule) {
  const bool one = (rule.families & (rule.families - 1)) == 0;
  return fmt::format("{} {} {}", family_names(rule.families), one ? "has" : "have", rule.has);
}

}  // namespace

HuggingFaceModel hugging_face_model(const Spec& spec) {
  const FamilyRule* broken = nullptr;  // of the family that fits best: the last rule at which one fails
  for (const Family& family : kFamilies) {
    const auto fails = [&](const FamilyRule& rule) {
      return (rule.families & family.bit) && !rule.holds(spec);
    };
    const auto first = std::ranges::find_if(kFamilyRules, fails);
    if (first == kFamilyRules.end()) return {std::string(family.model_type), "", ""};
    if (broken == nullptr || &*first > broken) broken = &*first;
  }
  return {"", std::string(broken->key), sentence_of(*broken)};
}

std::string describe(const HuggingFaceModel& model, bool adapters) {
  if (!model.family.empty())
    return fmt::format("checkpoints are {}Hugging Face's {}: {} loads them", adapters ? "adapters of " : "",
                       model.family, adapters ? "PEFT" : "transformers");
  return fmt::format("checkpoints {}, which transformers cannot load, because of {}: {}",
                     adapters ? "are adapters of a model" : "have model_type hydrac", model.key,
                     model.reason);
}

std::string hugging_face_rules() {
  std::string table = "| key | |\n| --- | --- |\n";
  for (const FamilyRule& rule : kFamilyRules)
    table += fmt::format("| `{}` | {} |\n", rule.key, sentence_of(rule));
  return table;
}

}  // namespace hydrac::spec
