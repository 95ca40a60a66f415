// Gemma 2 without softcaps of scores, with norms of queries and keys and a base of rope of its own in layers
// that have a window.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

Family gemma3() {
  const Rows own = {
      fixed("model.norm_placement", "both", "norms of a branch's input and of its output"),
      fixed("model.norm_offset", "1.0", "1"),
      fixed("model.qk_norm", "true"),
      only("model.qk_norm_scope", "head", "those of each head by itself"),
      attention_biases(),
      fixed("model.mlp_bias", "false"),
      inverse_square("query_pre_attn_scalar", "model.attention_scale", "256"),
      nullable("final_logit_softcapping", "model.logit_softcap", ""),
      ignored("attn_logit_softcapping"),  // transformers does not read it
      refused_unless("use_bidirectional_attention", "false", "attention to later tokens is not supported"),
  };
  return {.model_type = "gemma3_text",
          .name = "Gemma 3",
          .rows = joined({plain_rows(),
                          plain_stream_rows({"model.norm_offset", "model.embedding_scale",
                                             "model.attention_scale", "model.logit_softcap"}),
                          rope_rows({.model_type = R"("gemma3_text")",
                                     .architectures = R"(["Gemma3ForCausalLM"])",
                                     .key_value_heads = "4",
                                     .head_dim = "256",
                                     .tied = "true",
                                     .vocab_size = "262208",
                                     .heads = "8",
                                     .longest = "131072",
                                     .activation_key = "hidden_activation",
                                     .activation = "geglu_tanh",
                                     .theta = "1000000"}),
                          {root_of_width()},
                          own,
                          window_rows("4096", "6"),
                          {window_anyway()},
                          local_rope_rows("10000"),
                          no_token_rows()}),
          .modules = gemma2().modules,
          .biases = StoredBiases::attention_together};
}

}  // namespace hydrac::spec
