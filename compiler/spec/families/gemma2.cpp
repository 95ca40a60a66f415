// Norms of the branches' inputs and outputs, with an offset of 1; scaled embeddings; softcaps; a window in
// every other layer.
#include "spec/families/list.h"
#include "spec/families/rows.h"
#include "spec/hf_keys.h"

namespace hydrac::spec {
namespace {

// Without layer_types the layers 2, 4, .. see everything.
void read_alternating_windows(HfKeys& keys, const FamilyRow& row) {
  const bool has_types = keys.take("layer_types") != nullptr;
  const bool is_default = keys.config().find(row.theirs) == nullptr && !has_types;
  if (is_default) keys.constant(row.theirs, row.value);
  keys.windows(false);
  if (!has_types && (is_default || keys.take(row.theirs) != nullptr))
    keys.constant("sliding_window_pattern", "2");
}

}  // namespace

Family gemma2() {
  const Rows own = {
      fixed("model.norm_placement", "both", "norms of a branch's input and of its output"),
      fixed("model.norm_offset", "1.0", "1"),
      fixed("model.scale_embedding", "true"),
      only("model.qk_norm", "false"),
      attention_biases(),
      fixed("model.mlp_bias", "false"),
      heads_divide_width(),
      optional("query_pre_attn_scalar", "model.query_pre_attn_scalar", "256"),
      nullable("attn_logit_softcapping", "model.attention_softcap", "50.0"),
      nullable("final_logit_softcapping", "model.logit_softcap", "30.0"),
      {"sliding_window", "model.sliding_window", "4096", read_alternating_windows,
       [](const Spec& spec, const FamilyRow&) {
         // Gemma2Config needs one where no layer has it, too.
         const Model& m = spec.model;
         return std::to_string(m.sliding_window > 0 ? m.sliding_window : m.max_position_embeddings);
       }},
      {.theirs = "layer_types",
       .ours = "",
       .value = "",
       .write = [](const Spec& spec, const FamilyRow&) { return layer_types(spec.model); }},
      refused_unless("use_bidirectional_attention", "false", "attention to later tokens is not supported"),
      // The older name of hidden_activation, which transformers does not read.
      {.theirs = "hidden_act",
       .ours = "",
       .value = "",
       .read = [](HfKeys& keys, const FamilyRow& row) { keys.take(row.theirs); }},
  };
  return {.model_type = "gemma2",
          .name = "Gemma 2",
          .rows = joined({plain_rows(),
                          rope_rows({.model_type = R"("gemma2")",
                                     .architectures = R"(["Gemma2ForCausalLM"])",
                                     .key_value_heads = "4",
                                     .head_dim = "256",
                                     .tied = "true",
                                     .activation_key = "hidden_activation",
                                     .activation = "geglu_tanh"}),
                          own, last_rows()}),
          .modules = llama_modules({{"attn_output_norm", "model.layers.{}.post_attention_layernorm"},
                                    {"mlp_norm", "model.layers.{}.pre_feedforward_layernorm"},
                                    {"mlp_output_norm", "model.layers.{}.post_feedforward_layernorm"}}),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
