// Norms of the branches' inputs and outputs, with an offset of 1; scaled embeddings; softcaps; a window in
// every other layer.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family gemma2() {
  const Rows own = {
      fixed("model.norm_placement", "both", "norms of a branch's input and of its output"),
      fixed("model.norm_offset", "1.0", "1"),
      only("model.qk_norm", "false"),
      attention_biases(),
      fixed("model.mlp_bias", "false"),
      heads_divide_width(),
      inverse_square("query_pre_attn_scalar", "model.attention_scale", "256"),
      nullable("attn_logit_softcapping", "model.attention_softcap", "50.0"),
      nullable("final_logit_softcapping", "model.logit_softcap", "30.0"),
      refused_unless("use_bidirectional_attention", "false", "attention to later tokens is not supported"),
      ignored("hidden_act"),  // the older name of hidden_activation, which transformers does not read
  };
  return {.model_type = "gemma2",
          .name = "Gemma 2",
          .rows = joined(
              {plain_rows(),
               plain_stream_rows({"model.norm_offset", "model.embedding_scale", "model.attention_scale",
                                  "model.attention_softcap", "model.logit_softcap"}),
               same_rope_rows(),
               rope_rows({.model_type = R"("gemma2")",
                          .architectures = R"(["Gemma2ForCausalLM"])",
                          .key_value_heads = "4",
                          .head_dim = "256",
                          .tied = "true",
                          .activation_key = "hidden_activation",
                          .activation = "geglu_tanh"}),
               {root_of_width()},
               own,
               window_rows("4096", "2"),
               {window_anyway()},
               last_rows()}),
          .modules = llama_modules({{"attn_output_norm", "model.layers.{}.post_attention_layernorm"},
                                    {"mlp_norm", "model.layers.{}.pre_feedforward_layernorm"},
                                    {"mlp_output_norm", "model.layers.{}.post_feedforward_layernorm"}}),
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
