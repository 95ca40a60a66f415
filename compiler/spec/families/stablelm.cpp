// Layernorm with biases, and rope of a part of a head.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family stablelm() {
  const Rows own = {
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      heads_fill_width(),
      optional("use_qkv_bias", "model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
      refused_unless("qk_layernorm", "false", "a norm of its own for each head is not supported"),
      refused_unless("use_parallel_residual", "false", "attention and mlp side by side are not supported"),
      refused_unless("hidden_dropout", "0.0", "dropout that a checkpoint asks for is not supported"),
  };
  return {.model_type = "stablelm",
          .name = "StableLM",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(), same_rope_rows(),
                          rope_rows({.model_type = R"("stablelm")",
                                     .architectures = R"(["StableLmForCausalLM"])",
                                     .key_value_heads = "32",
                                     .norm_eps = "1e-5",
                                     .norm_eps_key = "layer_norm_eps",
                                     .partial = "0.25",
                                     .has_layernorm = true}),
                          own, last_rows()}),
          .modules = llama_modules()};
}

}  // namespace hydrac::spec
