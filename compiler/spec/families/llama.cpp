#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family llama() {
  const Rows own = {
      only("model.qk_norm", "false"),
      attention_biases(),
      optional("mlp_bias", "model.mlp_bias", "false"),
      heads_divide_width(),
      rule("model.initializer_range", "at most 1",
           [](const Spec& s, const FamilyRow&) { return s.model.initializer_range <= 1; }),
  };
  return {.model_type = "llama",
          .name = "Llama",
          .rows = joined({llama_rows({.model_type = R"("llama")",
                                      .architectures = R"(["LlamaForCausalLM"])",
                                      .key_value_heads = ""}),
                          own, no_window_rows(), last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
