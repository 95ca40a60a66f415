// OLMo 2 with windows in all but every few layers, where rope is not scaled.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family olmo3() {
  const Rows own = {
      fixed("model.norm_placement", "output", "norms of a branch's output alone"),
      fixed("model.qk_norm", "true"),
      fixed("model.qk_norm_scope", "projection", "one norm of all heads"),
      attention_biases(),
      fixed("model.mlp_bias", "false"),
  };
  return {.model_type = "olmo3",
          .name = "OLMo 3",
          .rows = joined({plain_rows(), plain_stream_rows(),
                          rope_rows({.model_type = R"("olmo3")",
                                     .architectures = R"(["Olmo3ForCausalLM"])",
                                     .key_value_heads = "",
                                     .norm_eps = "1e-5",
                                     .theta = "500000"}),
                          own, window_rows("4096", "4"), local_rope_rows(""), no_token_rows()}),
          .modules = olmo2().modules,
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
