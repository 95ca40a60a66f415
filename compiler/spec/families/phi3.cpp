// Llama with queries, keys and values in one stored tensor, gate and up in another, and rope of a part of a
// head.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family phi3() {
  const Rows own = {
      only("model.qk_norm", "false"),
      no_padding(),
      only("model.rope_scaling.factor", "1.0", "rope without scaling"),
      fixed("model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
      window_row("0"),
      rule("model.sliding_window_pattern", "windows in all layers or in none", has_alike_windows),
      refused_unless("resid_pdrop", "0.0", "dropout that a checkpoint asks for is not supported"),
      refused_unless("embd_pdrop", "0.0", "dropout that a checkpoint asks for is not supported"),
      ignored("original_max_position_embeddings"),
  };
  return {.model_type = "phi3",
          .name = "Phi-3",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(), same_rope_rows(),
                          rope_rows({.model_type = R"("phi3")",
                                     .architectures = R"(["Phi3ForCausalLM"])",
                                     .key_value_heads = "",
                                     .norm_eps = "1e-5",
                                     .partial = "1.0",
                                     .packed = "qkv_gate_up"}),
                          own, last_rows()}),
          .modules = llama_modules({{"attn.q", "model.layers.{}.self_attn.qkv_proj"},
                                    {"attn.k", "model.layers.{}.self_attn.qkv_proj"},
                                    {"attn.v", "model.layers.{}.self_attn.qkv_proj"},
                                    {"mlp.gate", "model.layers.{}.mlp.gate_up_proj"},
                                    {"mlp.up", "model.layers.{}.mlp.gate_up_proj"}})};
}

}  // namespace hydrac::spec
