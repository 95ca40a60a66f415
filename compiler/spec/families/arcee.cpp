// Llama with an mlp that has no gate.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family arcee() {
  const Rows own = {
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      attention_biases(),
      optional("mlp_bias", "model.mlp_bias", "false"),
      heads_divide_width(),
  };
  return {.model_type = "arcee",
          .name = "Arcee",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(), same_rope_rows(),
                          rope_rows({.model_type = R"("arcee")",
                                     .architectures = R"(["ArceeForCausalLM"])",
                                     .key_value_heads = "",
                                     .norm_eps = "1e-5",
                                     .activation = "relu2",
                                     .is_gated = false}),
                          own, last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
