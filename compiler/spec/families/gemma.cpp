// Llama with a norm offset of 1, scaled embeddings and an mlp gated by gelu.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family gemma() {
  const Rows own = {
      fixed("model.norm_offset", "1.0", "1"),
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      attention_biases(),
      fixed("model.mlp_bias", "false"),
      heads_divide_width(),
      refused_unless("use_bidirectional_attention", "false", "attention to later tokens is not supported"),
  };
  return {.model_type = "gemma",
          .name = "Gemma",
          .rows = joined({plain_rows(),
                          input_norm_rows(),
                          plain_stream_rows({"model.norm_offset", "model.embedding_scale"}),
                          same_rope_rows(),
                          rope_rows({.model_type = R"("gemma")",
                                     .architectures = R"(["GemmaForCausalLM"])",
                                     .key_value_heads = "16",
                                     .head_dim = "256",
                                     .tied = "true",
                                     .activation = "geglu_tanh"}),
                          {root_of_width()},
                          own,
                          last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
