// Mistral with a window in some layers.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family ministral() {
  const Rows own = {
      only("model.qk_norm", "false"),
      fixed("model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
  };
  return {.model_type = "ministral",
          .name = "Ministral",
          .rows = joined({llama_rows({.model_type = R"("ministral")",
                                      .architectures = R"(["MinistralForCausalLM"])",
                                      .key_value_heads = "8"}),
                          own, window_rows("4096", "0"), last_rows()}),
          .modules = llama_modules()};
}

}  // namespace hydrac::spec
