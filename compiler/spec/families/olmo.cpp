// OLMo 2: norms of the branches' outputs, and of all queries and all keys of a token together. The third
// generation has windows in all but every few layers, where rope is not scaled.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {
namespace {

Family olmo(std::string_view model_type, std::string_view name, const RopeFamily& names, const Rows& layers) {
  const Rows own = {
      fixed("model.norm_placement", "output", "norms of a branch's output alone"),
      fixed("model.qk_norm", "true"),
      fixed("model.qk_norm_scope", "projection", "one norm of all heads"),
      attention_biases(),
      fixed("model.mlp_bias", "false"),
  };
  return {.model_type = model_type,
          .name = name,
          .rows = joined({plain_rows(), plain_stream_rows(), rope_rows(names), own, layers}),
          .modules = llama_modules({{"attn_output_norm", "model.layers.{}.post_attention_layernorm"},
                                    {"mlp_output_norm", "model.layers.{}.post_feedforward_layernorm"}}),
          .biases = StoredBiases::attention_together};
}

}  // namespace

Family olmo2() {
  return olmo("olmo2", "OLMo 2",
              {.model_type = R"("olmo2")",
               .architectures = R"(["Olmo2ForCausalLM"])",
               .key_value_heads = "",
               .norm_eps = "1e-5"},
              joined({same_rope_rows(), {only("model.sliding_window", "0")}, last_rows()}));
}

Family olmo3() {
  return olmo("olmo3", "OLMo 3",
              {.model_type = R"("olmo3")",
               .architectures = R"(["Olmo3ForCausalLM"])",
               .key_value_heads = "",
               .norm_eps = "1e-5",
               .theta = "500000"},
              joined({window_rows("4096", "4"), local_rope_rows(""), no_token_rows()}));
}

}  // namespace hydrac::spec
