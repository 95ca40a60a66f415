// Layernorm with biases, rope of a quarter of a head, attention and mlp side by side, and each head's query,
// key and value together in files (Pythia).
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family gpt_neox() {
  const Rows own = {
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      heads_fill_width(),
      all_heads_have_keys(),
      attention_biases("true"),
      fixed("model.mlp_bias", "true"),
      optional("hidden_dropout", "model.dropout", "0"),
      ignored("classifier_dropout"),
  };
  return {.model_type = "gpt_neox",
          .name = "GPT-NeoX",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(), same_rope_rows(),
                          rope_rows({.model_type = R"("gpt_neox")",
                                     .architectures = R"(["GPTNeoXForCausalLM"])",
                                     .key_value_heads = "",
                                     .norm_eps = "1e-5",
                                     .norm_eps_key = "layer_norm_eps",
                                     .activation = "gelu",
                                     .is_gated = false,
                                     .theta_key = "rotary_emb_base",
                                     .partial = "0.25",
                                     .partial_key = "rotary_pct",
                                     .has_layernorm = true,
                                     .block = "",
                                     .packed = "qkv_by_head"}),
                          own, last_rows()}),
          .modules = {{"token_embedding", "gpt_neox.embed_in"},
                      {"attn_norm", "gpt_neox.layers.{}.input_layernorm"},
                      {"attn.q", "gpt_neox.layers.{}.attention.query_key_value"},
                      {"attn.k", "gpt_neox.layers.{}.attention.query_key_value"},
                      {"attn.v", "gpt_neox.layers.{}.attention.query_key_value"},
                      {"attn.out", "gpt_neox.layers.{}.attention.dense"},
                      {"mlp_norm", "gpt_neox.layers.{}.post_attention_layernorm"},
                      {"mlp.up", "gpt_neox.layers.{}.mlp.dense_h_to_4h"},
                      {"mlp.down", "gpt_neox.layers.{}.mlp.dense_4h_to_h"},
                      {"final_norm", "gpt_neox.final_layer_norm"},
                      {"head", "embed_out"}},
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
