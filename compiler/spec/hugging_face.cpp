#include "spec/hugging_face.h"

#include <fmt/format.h>

namespace hydrac::spec {
namespace {

HuggingFaceModel none(std::string key, std::string reason) {
  return {"", std::move(key), std::move(reason)};
}

HuggingFaceModel with_layernorm(const Model& m) {
  if (m.position == Position::rope)
    return none("model.position", "GPT-2 has no rope, and Llama and Qwen have no layernorm");
  if (is_gated(m.hidden_act))
    return none("model.hidden_act",
                fmt::format("GPT-2's mlp is not gated, and {} is", to_string(m.hidden_act.word)));
  if (m.qk_norm) return none("model.qk_norm", "GPT-2 has none, and Qwen3 has rmsnorm");
  if (m.num_key_value_heads != m.num_attention_heads)
    return none("model.num_key_value_heads", "GPT-2 has as many key and value heads as query heads");
  if (m.head_dim * m.num_attention_heads != m.hidden_size)
    return none("model.head_dim", "GPT-2's is hidden_size / num_attention_heads");
  if (m.sliding_window > 0) return none("model.sliding_window", "GPT-2 has none");
  return {"gpt2", "", ""};
}

HuggingFaceModel with_rmsnorm(const Model& m, bool own_tokenizer) {
  if (m.position != Position::rope)
    return none("model.position", fmt::format("Llama and Qwen have rope, not {}", to_string(m.position)));
  if (!is_gated(m.hidden_act))
    return none("model.hidden_act", fmt::format("the mlp of Llama and Qwen is gated, and {} is not",
                                                to_string(m.hidden_act.word)));
  if (m.qk_norm && m.mlp_bias) return none("model.mlp_bias", "Qwen3, which has qk_norm, has none");
  if (m.qk_norm) return {"qwen3", "", ""};
  // Llama with zeros for the output's bias is the same model. transformers 5 gives whatever has model_type
  // qwen2 Qwen2's way of splitting text, and so other ids than a byte or char tokenizer does.
  const bool is_qwen2 = m.attention_bias && !m.attention_output_bias && !m.mlp_bias;
  if (is_qwen2 && !own_tokenizer) return {"qwen2", "", ""};
  if (m.sliding_window == 0) return {"llama", "", ""};
  const bool has_bias = m.attention_bias || m.attention_output_bias || m.mlp_bias;
  if (m.sliding_window_pattern > 0 || has_bias)
    return none("model.sliding_window", "Llama has none, and Mistral has it in every layer and no biases");
  return {"mistral", "", ""};
}

}  // namespace

HuggingFaceModel hugging_face_model(const Spec& spec) {
  const Model& m = spec.model;
  if (m.input != Input::tokens || m.head != Head::language_model)
    return none("model.input", fmt::format("{} is no language model's", to_string(m.input)));
  if (m.hidden_act.function) return none("model.hidden_act", "a function of your own has no name there");
  if (m.attention_kind == AttentionKind::ccgqa)
    return none("model.attention_kind", "none of these models compresses or convolves queries and keys");
  if (routes_tokens(spec)) return none("model.mod.capacity", "none of these models routes tokens");
  if (has_recursions(spec))
    return none("model.mor.recursions", "none of these models takes several passes through an mlp");
  if (m.rope_interleave && m.position == Position::rope)
    return none("model.rope_interleave", "these models turn the halves of a head together");
  if (m.attention_softcap > 0) return none("model.attention_softcap", "none of these models has one");
  if (m.logit_softcap > 0) return none("model.logit_softcap", "none of these models has one");
  const std::string& tokenizer = spec.data.tokenizer;
  return m.norm == Norm::layernorm ? with_layernorm(m)
                                   : with_rmsnorm(m, tokenizer == "byte" || tokenizer == "char");
}

std::string describe(const HuggingFaceModel& model, bool adapters) {
  if (!model.family.empty())
    return fmt::format("checkpoints are {}Hugging Face's {}: {} loads them", adapters ? "adapters of " : "",
                       model.family, adapters ? "PEFT" : "transformers");
  return fmt::format("checkpoints {}, which transformers cannot load, because of {}: {}",
                     adapters ? "are adapters of a model" : "have model_type hydrac", model.key,
                     model.reason);
}

}  // namespace hydrac::spec
