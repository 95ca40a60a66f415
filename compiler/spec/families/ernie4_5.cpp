// Llama with rope that turns neighbours, and one key for all biases.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family ernie4_5() {
  const Rows own = {
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      linear_biases("use_bias", "false"),
  };
  return {.model_type = "ernie4_5",
          .name = "ERNIE 4.5",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(), same_rope_rows(),
                          rope_rows({.model_type = R"("ernie4_5")",
                                     .architectures = R"(["Ernie4_5ForCausalLM"])",
                                     .key_value_heads = "2",
                                     .head_dim = "128",
                                     .norm_eps = "1e-5",
                                     .tied = "true",
                                     .theta = "500000",
                                     .interleaves = true}),
                          own, last_rows()}),
          .modules = llama_modules()};
}

}  // namespace hydrac::spec
