// Mistral with experts of the mlp's width, whose weights are divided by their sum.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family mixtral() {
  const Rows own = {
      only("model.qk_norm", "false"),
      fixed("model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
      window_row("0"),
      rule("model.sliding_window_pattern", "windows in all layers or in none", has_alike_windows),
      only("model.moe.normalize_top_k", "true"),
      experts_of_mlp_width(),
      refused_unless("router_jitter_noise", "0.0", "noise of a router's input is not supported"),
  };
  return {.model_type = "mixtral",
          .name = "Mixtral",
          .rows = joined(
              {llama_rows({.model_type = R"("mixtral")",
                           .architectures = R"(["MixtralForCausalLM"])",
                           .key_value_heads = "8",
                           .norm_eps = "1e-5",
                           .theta = "1000000",
                           .has_experts = true}),
               own,
               expert_rows({.count = "num_local_experts", .experts = "8", .top_k = "2", .aux_loss = "0.001"}),
               last_rows()}),
          .modules = llama_modules({{"router", "model.layers.{}.block_sparse_moe.gate"},
                                    {"experts.gate", "model.layers.{}.block_sparse_moe.experts.*.w1"},
                                    {"experts.up", "model.layers.{}.block_sparse_moe.experts.*.w3"},
                                    {"experts.down", "model.layers.{}.block_sparse_moe.experts.*.w2"}})};
}

}  // namespace hydrac::spec
