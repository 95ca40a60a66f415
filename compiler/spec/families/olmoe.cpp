// Norms of all queries and all keys of a token together, and experts of the mlp's width.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family olmoe() {
  const Rows own = {
      fixed("model.qk_norm", "true"),
      fixed("model.qk_norm_scope", "projection", "one norm of all heads"),
      attention_biases(),
      fixed("model.mlp_bias", "false"),
      only("model.sliding_window", "0"),
      normalized_weights(),
      experts_of_mlp_width(),
      refused_unless("clip_qkv", "null", "clipped queries, keys and values are not supported"),
  };
  return {.model_type = "olmoe",
          .name = "OLMoE",
          .rows = joined(
              {llama_rows({.model_type = R"("olmoe")",
                           .architectures = R"(["OlmoeForCausalLM"])",
                           .key_value_heads = "",
                           .norm_eps = "1e-5",
                           .has_experts = true}),
               own, expert_rows({.count = "num_experts", .experts = "64", .top_k = "8", .aux_loss = "0.01"}),
               last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
