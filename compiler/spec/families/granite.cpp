// Llama with factors of embeddings, attention scores, branches and logits.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family granite() {
  const Rows own = {
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      attention_biases(),
      optional("mlp_bias", "model.mlp_bias", "false"),
      optional("embedding_multiplier", "model.embedding_scale", "1.0"),
      optional("attention_multiplier", "model.attention_scale", "1.0"),
      optional("residual_multiplier", "model.residual_scale", "1.0"),
      reciprocal("logits_scaling", "model.logit_scale", "1.0"),
  };
  return {.model_type = "granite",
          .name = "Granite",
          .rows = joined({plain_rows(), input_norm_rows(), same_rope_rows(),
                          plain_stream_rows({"model.embedding_scale", "model.attention_scale",
                                             "model.residual_scale", "model.logit_scale"}),
                          rope_rows({.model_type = R"("granite")",
                                     .architectures = R"(["GraniteForCausalLM"])",
                                     .key_value_heads = ""}),
                          own, last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
