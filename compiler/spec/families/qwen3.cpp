#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family qwen3() {
  const Rows own = {fixed("model.qk_norm", "true"),
                    only("model.qk_norm_scope", "head", "those of each head by itself"), attention_biases(),
                    fixed("model.mlp_bias", "false")};
  return {.model_type = "qwen3",
          .name = "Qwen3",
          .rows = joined({llama_rows({.model_type = R"("qwen3")",
                                      .architectures = R"(["Qwen3ForCausalLM"])",
                                      .key_value_heads = "32",
                                      .head_dim = "128"}),
                          own, switched_window_rows(), last_rows()}),
          .modules = llama_modules(),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
