// Norms of the branches' outputs, and of all queries and all keys of a token together.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family olmo2() {
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
          .rows = joined({plain_rows(), plain_stream_rows(), same_rope_rows(),
                          rope_rows({.model_type = R"("olmo2")",
                                     .architectures = R"(["Olmo2ForCausalLM"])",
                                     .key_value_heads = "",
                                     .norm_eps = "1e-5"}),
                          own, last_rows()}),
          .modules = llama_modules({{"attn_output_norm", "model.layers.{}.post_attention_layernorm"},
                                    {"mlp_output_norm", "model.layers.{}.post_feedforward_layernorm"}}),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
