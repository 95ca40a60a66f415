// Norms of the branches' outputs, and of all queries and all keys of a token together.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family olmo2() {
  static constexpr ModuleName kModules[] = {
      {"token_embedding", "model.embed_tokens"},
      {"position_embedding", "model.embed_positions"},
      {"attn.q", "model.layers.{}.self_attn.q_proj"},
      {"attn.k", "model.layers.{}.self_attn.k_proj"},
      {"attn.v", "model.layers.{}.self_attn.v_proj"},
      {"attn.q_norm", "model.layers.{}.self_attn.q_norm"},
      {"attn.k_norm", "model.layers.{}.self_attn.k_norm"},
      {"attn.out", "model.layers.{}.self_attn.o_proj"},
      {"attn_output_norm", "model.layers.{}.post_attention_layernorm"},
      {"mlp.gate", "model.layers.{}.mlp.gate_proj"},
      {"mlp.up", "model.layers.{}.mlp.up_proj"},
      {"mlp.down", "model.layers.{}.mlp.down_proj"},
      {"mlp_output_norm", "model.layers.{}.post_feedforward_layernorm"},
      {"final_norm", "model.norm"},
      {"head", "lm_head"},
  };
  const Rows own = {
      fixed("model.norm_placement", "output", "norms of a branch's output alone"),
      fixed("model.qk_norm", "true"),
      fixed("model.qk_norm_scope", "projection", "one norm of all heads"),
      attention_biases(),
      fixed("model.mlp_bias", "false"),
      only("model.sliding_window", "0"),
  };
  return {.model_type = "olmo2",
          .name = "OLMo 2",
          .rows = joined({plain_rows(), plain_stream_rows(),
                          rope_rows({.model_type = R"("olmo2")",
                                     .architectures = R"(["Olmo2ForCausalLM"])",
                                     .key_value_heads = "",
                                     .norm_eps = "1e-5"}),
                          own, last_rows()}),
          .modules = kModules,
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
