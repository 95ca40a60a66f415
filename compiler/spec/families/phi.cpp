// Phi-1 and Phi-2: attention and mlp read one layernorm, rope of a part of a head, biases everywhere.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family phi() {
  const Rows own = {
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      heads_fill_width(),
      fixed("model.attention_bias", "true"),
      fixed("model.attention_output_bias", "true"),
      fixed("model.mlp_bias", "true"),
      residual_dropout("resid_pdrop", "0"),
      also_written("embd_pdrop", "model.dropout"),
      refused_unless("qk_layernorm", "false", "layernorms of queries and keys are not supported"),
  };
  return {.model_type = "phi",
          .name = "Phi",
          .rows = joined({plain_rows({.has_head_bias = true}), input_norm_rows(), plain_stream_rows(),
                          same_rope_rows(),
                          rope_rows({.model_type = R"("phi")",
                                     .architectures = R"(["PhiForCausalLM"])",
                                     .key_value_heads = "",
                                     .norm_eps = "1e-5",
                                     .norm_eps_key = "layer_norm_eps",
                                     .activation = "gelu_tanh",
                                     .is_gated = false,
                                     .partial = "0.5",
                                     .has_layernorm = true,
                                     .block = "parallel_one_norm"}),
                          own, last_rows()}),
          .modules = llama_modules({{"attn.out", "model.layers.{}.self_attn.dense"},
                                    {"mlp.up", "model.layers.{}.mlp.fc1"},
                                    {"mlp.down", "model.layers.{}.mlp.fc2"},
                                    {"final_norm", "model.final_layernorm"}})};
}

}  // namespace hydrac::spec
