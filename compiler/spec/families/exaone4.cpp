// Norms of the branches' outputs and of each query and key; rope only in layers with a window, where others
// have none.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family exaone4() {
  const Rows own = {
      fixed("model.norm_placement", "output", "norms of a branch's output alone"),
      fixed("model.qk_norm", "true"),
      only("model.qk_norm_scope", "head", "those of each head by itself"),
      fixed("model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
      only("model.rope_local_theta", "0.0", "one base of rope"),
  };
  return {.model_type = "exaone4",
          .name = "EXAONE 4",
          .rows = joined({plain_rows(), plain_stream_rows(),
                          rope_rows({.model_type = R"("exaone4")",
                                     .architectures = R"(["Exaone4ForCausalLM"])",
                                     .key_value_heads = "32",
                                     .norm_eps = "1e-5"}),
                          own, window_rows("4096", "4"), rope_in_windows_rows("0"), last_rows()}),
          .modules = olmo2().modules};
}

}  // namespace hydrac::spec
