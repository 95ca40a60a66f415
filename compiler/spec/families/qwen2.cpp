#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family qwen2() {
  const Rows own = {
      only("model.qk_norm", "false"),
      fixed("model.attention_bias", "true"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
      rule("data.tokenizer", "its own splitting of text, whatever tokenizer.json says",
           [](const Spec& s, const FamilyRow&) { return s.qwen2_tokenizer; }),
  };
  return {.model_type = "qwen2",
          .name = "Qwen2",
          .rows = joined({llama_rows({.model_type = R"("qwen2")",
                                      .architectures = R"(["Qwen2ForCausalLM"])",
                                      .key_value_heads = "32"}),
                          own, switched_window_rows(), last_rows()}),
          .modules = llama_modules(),
          .qwen2_tokenizer = true};
}

}  // namespace hydrac::spec
