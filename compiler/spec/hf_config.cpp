#include "spec/hf_config.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "diag/render.h"
#include "spec/hf_keys.h"
#include "spec/source.h"

namespace hydrac::spec {
namespace {

void gpt2(HfKeys& keys) {
  for (const std::string_view ours : {"norm_bias", "attention_bias", "attention_output_bias", "mlp_bias"})
    keys.constant(ours, "true");
  keys.constant("norm", "layernorm");
  keys.constant("position", "learned");
  keys.map_needed("n_embd", "hidden_size");
  keys.map_needed("n_layer", "num_hidden_layers");
  keys.map_needed("n_head", "num_attention_heads");
  keys.map_needed("vocab_size", "vocab_size");
  keys.map_needed("n_positions", "max_position_embeddings");
  keys.map("n_inner", "intermediate_size");
  keys.map("layer_norm_epsilon", "norm_eps", "1e-5");
  keys.activation("activation_function", /*gated=*/false, "gelu_tanh");
  keys.same_dropouts();
  keys.map("attn_pdrop", "attention_dropout", "0.1");
  keys.map("initializer_range", "initializer_range", "0.02");
  keys.map("tie_word_embeddings", "tie_word_embeddings", "true");
  keys.must_be("scale_attn_weights", "true", "attention without scaling is not supported");
  keys.must_be("scale_attn_by_inverse_layer_idx", "false",
               "scaling attention by the layer's index is not supported");
  keys.must_be("add_cross_attention", "false", "cross-attention is not supported");
}

void llama_like(HfKeys& keys) {
  keys.constant("norm", "rmsnorm");
  keys.constant("norm_bias", "false");
  keys.constant("position", "rope");
  keys.map_needed("hidden_size", "hidden_size");
  keys.map_needed("intermediate_size", "intermediate_size");
  keys.map_needed("num_hidden_layers", "num_hidden_layers");
  keys.map_needed("num_attention_heads", "num_attention_heads");
  keys.map_needed("vocab_size", "vocab_size");
  keys.map_needed("max_position_embeddings", "max_position_embeddings");
  keys.map("rms_norm_eps", "norm_eps", "1e-6");
  keys.map("rope_theta", "rope_theta", "10000");
  for (const std::string_view theirs : {"rope_scaling", "rope_parameters"})
    if (const Entry* entry = keys.take(theirs)) keys.rope(entry->value);
  keys.activation("hidden_act", /*gated=*/true, "swiglu");
  keys.map("attention_dropout", "attention_dropout", "0");
  keys.map("initializer_range", "initializer_range", "0.02");
  keys.map("tie_word_embeddings", "tie_word_embeddings", "false");
  keys.must_be("use_mrope", "false", "multimodal rope is not supported");
  keys.refuses_part_of_head(keys.take("partial_rotary_factor"));
  keys.map("attn_logit_softcapping", "attention_softcap");
  keys.map("final_logit_softcapping", "logit_softcap");
}

void llama(HfKeys& keys) {
  llama_like(keys);
  keys.key_value_heads("");
  keys.windows(true);
  keys.map("head_dim", "head_dim");
  keys.map("attention_bias", "attention_bias", "false");
  keys.map("attention_bias", "attention_output_bias", "false");
  keys.map("mlp_bias", "mlp_bias", "false");
}

void qwen2(HfKeys& keys) {
  llama_like(keys);
  keys.key_value_heads("32");
  keys.windows(true);
  keys.map("head_dim", "head_dim");
  keys.constant("attention_bias", "true");
  keys.constant("attention_output_bias", "false");
  keys.constant("mlp_bias", "false");
}

void qwen3(HfKeys& keys) {
  llama_like(keys);
  keys.key_value_heads("32");
  keys.windows(true);
  keys.constant("qk_norm", "true");
  keys.map("head_dim", "head_dim", "128");
  keys.map("attention_bias", "attention_bias", "false");
  keys.map("attention_bias", "attention_output_bias", "false");
  keys.constant("mlp_bias", "false");
}

// Llama without biases, with a sliding window in every layer.
void mistral(HfKeys& keys) {
  llama_like(keys);
  keys.key_value_heads("8");
  keys.map("head_dim", "head_dim");
  for (const std::string_view ours : {"attention_bias", "attention_output_bias", "mlp_bias"})
    keys.constant(ours, "false");
  if (keys.config().find("sliding_window") == nullptr)
    keys.constant("sliding_window", "4096");  // Hugging Face's default
  keys.windows(false);
}

// Keys of a model that Hugging Face has no name for: the spec's own.
void own(HfKeys& keys) {
  for (const Entry& entry : keys.config().entries) {
    keys.take(entry.key);
    if (entry.key != "model_type" && entry.key != "from" && entry.key != "weights" &&
        !HfKeys::is_irrelevant(entry.key))
      keys.set(entry.key, entry.where, entry.value);
  }
}

// The families of models by their model_type.
using Family = std::pair<std::string_view, void (*)(HfKeys&)>;
constexpr auto kFamilies = std::to_array<Family>({{"gpt2", gpt2},
                                                  {"llama", llama},
                                                  {"mistral", mistral},
                                                  {"qwen2", qwen2},
                                                  {"qwen3", qwen3},
                                                  {"hydrac", own}});

Node read_model(HfKeys& keys) {
  const Entry* type = keys.take("model_type");
  for (const auto& [name, read] : kFamilies) {
    if (type == nullptr || type->value.text != name) continue;
    read(keys);
    keys.report_unknown();
    return keys.take_model();
  }
  keys.unsupported(keys.where(),
                   type != nullptr
                       ? fmt::format("models of type {} are not supported", diag::printable(type->value.text))
                       : "this config.json has no model_type",
                   "gpt2, llama, mistral, qwen2 and qwen3 are");
  return keys.take_model();
}

}  // namespace

std::optional<Node> read_hf_config(const std::string& path, const diag::Location& wanted_by,
                                   const Node& written, diag::Diagnostics& diagnostics) {
  const std::optional<Node> config = read_map(path, wanted_by, diagnostics);
  if (!config) return std::nullopt;
  const size_t errors = diagnostics.errors();
  HfKeys keys(*config, written, diagnostics);
  Node model = read_model(keys);
  if (diagnostics.errors() != errors) return std::nullopt;
  return model;
}

}  // namespace hydrac::spec
