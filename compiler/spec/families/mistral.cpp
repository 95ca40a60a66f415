// Llama without biases, with a sliding window in every layer.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {
Family mistral() {
  const Rows own = {
      only("model.qk_norm", "false"),
      fixed("model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
      window_row("4096"),
      rule("model.sliding_window_pattern", "windows in all layers or in none", has_alike_windows),
  };
  return {.model_type = "mistral",
          .name = "Mistral",
          .rows = joined({llama_rows({.model_type = R"("mistral")",
                                      .architectures = R"(["MistralForCausalLM"])",
                                      .key_value_heads = "8"}),
                          own, last_rows()}),
          .modules = llama_modules()};
}

}  // namespace hydrac::spec
