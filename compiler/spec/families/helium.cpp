// Llama with rope that turns neighbours.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family helium() {
  const Rows own = {
      only("model.qk_norm", "false"),
      no_padding(),
      only("model.sliding_window", "0"),
      heads_fill_width(),
      optional("attention_bias", "model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      optional("mlp_bias", "model.mlp_bias", "false"),
  };
  return {.model_type = "helium",
          .name = "Helium",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(), same_rope_rows(),
                          rope_rows({.model_type = R"("helium")",
                                     .architectures = R"(["HeliumForCausalLM"])",
                                     .key_value_heads = "20",
                                     .head_dim = "128",
                                     .norm_eps = "1e-8",
                                     .theta = "100000",
                                     .interleaves = true}),
                          own, last_rows()}),
          .modules = llama_modules()};
}

}  // namespace hydrac::spec
