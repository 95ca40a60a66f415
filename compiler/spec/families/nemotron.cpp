// Layernorm whose weights are offset by 1, squared relu without a gate, and rope of half of a head.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family nemotron() {
  const Rows own = {
      fixed("model.norm_offset", "1.0", "1"),
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      attention_biases(),
      optional("mlp_bias", "model.mlp_bias", "false"),
  };
  return {.model_type = "nemotron",
          .name = "Nemotron",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows({"model.norm_offset"}),
                          same_rope_rows(),
                          rope_rows({.model_type = R"("nemotron")",
                                     .architectures = R"(["NemotronForCausalLM"])",
                                     .key_value_heads = "",
                                     .norm_eps = "1e-5",
                                     .norm_eps_key = "norm_eps",
                                     .activation = "relu2",
                                     .is_gated = false,
                                     .partial = "0.5",
                                     .has_layernorm = true}),
                          own, last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
