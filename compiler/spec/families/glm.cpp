// GLM-4: rope that turns neighbours of a head's first half, gate and up in one stored tensor. The generation
// of 0414 (glm4) has norms of the branches' outputs, too.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {
namespace {

Rows glm_rows(std::string_view model_type, std::string_view architectures) {
  const Rows own = {
      only("model.qk_norm", "false"),
      no_padding(),
      only("model.sliding_window", "0"),
      optional("attention_bias", "model.attention_bias", "true"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
  };
  return joined({plain_rows(), plain_stream_rows(), same_rope_rows(),
                 rope_rows({.model_type = model_type,
                            .architectures = architectures,
                            .key_value_heads = "2",
                            .head_dim = "128",
                            .norm_eps = "0.00000015625",
                            .partial = "0.5",
                            .interleaves = true,
                            .packed = "gate_up"}),
                 own, last_rows()});
}

}  // namespace

Family glm() {
  return {.model_type = "glm",
          .name = "GLM-4",
          .rows = joined({input_norm_rows(), glm_rows(R"("glm")", R"(["GlmForCausalLM"])")}),
          .modules = llama_modules({{"mlp.gate", "model.layers.{}.mlp.gate_up_proj"},
                                    {"mlp.up", "model.layers.{}.mlp.gate_up_proj"}})};
}

Family glm4() {
  const Rows norms = {fixed("model.norm_placement", "both", "norms of a branch's input and of its output")};
  return {.model_type = "glm4",
          .name = "GLM-4 0414",
          .rows = joined({norms, glm_rows(R"("glm4")", R"(["Glm4ForCausalLM"])")}),
          .modules = llama_modules({{"attn_output_norm", "model.layers.{}.post_self_attn_layernorm"},
                                    {"mlp.gate", "model.layers.{}.mlp.gate_up_proj"},
                                    {"mlp.up", "model.layers.{}.mlp.gate_up_proj"},
                                    {"mlp_output_norm", "model.layers.{}.post_mlp_layernorm"}})};
}

}  // namespace hydrac::spec
