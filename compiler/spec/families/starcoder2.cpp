// Llama with layernorm and an mlp without a gate.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family starcoder2() {
  const Rows own = {
      only("model.qk_norm", "false"),
      window_row("0"),
      rule("model.sliding_window_pattern", "windows in all layers or in none", has_alike_windows),
      linear_biases("use_bias", "true"),
      residual_dropout("residual_dropout", "0"),
      also_written("embedding_dropout", "model.dropout"),
  };
  return {.model_type = "starcoder2",
          .name = "StarCoder2",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(), same_rope_rows(),
                          rope_rows({.model_type = R"("starcoder2")",
                                     .architectures = R"(["Starcoder2ForCausalLM"])",
                                     .key_value_heads = "2",
                                     .norm_eps = "1e-5",
                                     .tied = "true",
                                     .norm_eps_key = "norm_epsilon",
                                     .activation = "gelu_tanh",
                                     .is_gated = false,
                                     .has_layernorm = true}),
                          own, last_rows()}),
          .modules = llama_modules(
              {{"mlp.up", "model.layers.{}.mlp.c_fc"}, {"mlp.down", "model.layers.{}.mlp.c_proj"}})};
}

}  // namespace hydrac::spec
