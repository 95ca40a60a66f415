// GPT-2, and GPT-BigCode (StarCoder): with one head of keys and values, and linear layers as PyTorch stores
// them.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {

namespace {

// `heads`: the rows about heads of keys and values.
Family learned_positions(std::string_view model_type, std::string_view name, const Rows& heads) {
  const Rows own = {
      only("model.block", "sequential", "attention first, and then the mlp of the sum"),
      fixed("model.norm", "layernorm"),
      zeros_if_missing("model.norm_bias", "true"),
      zeros_if_missing("model.attention_bias", "true"),
      zeros_if_missing("model.attention_output_bias", "true"),
      zeros_if_missing("model.mlp_bias", "true"),
      zeros_if_missing("model.position", "learned"),
      rule("model.position", "learned positions, which may be zeros, and no rope",
           [](const Spec& s, const FamilyRow&) { return s.model.position != Position::rope; }),
      only("model.qk_norm", "false"),
      queries_together(),
      heads_fill_width(),
      only("model.sliding_window", "0"),
      needed("vocab_size", "model.vocab_size"),
      needed("n_positions", "model.max_position_embeddings"),
      needed("n_embd", "model.hidden_size"),
      needed("n_layer", "model.num_hidden_layers"),
      needed("n_head", "model.num_attention_heads"),
      optional("n_inner", "model.intermediate_size"),
      activation("activation_function", /*gated=*/false, "gelu_tanh"),
      optional("layer_norm_epsilon", "model.norm_eps", "1e-5"),
      residual_dropout("resid_pdrop", "0.1"),
      also_written("embd_pdrop", "model.dropout"),
      optional("attn_pdrop", "model.attention_dropout", "0.1"),
      optional("tie_word_embeddings", "model.tie_word_embeddings", "true"),
      optional("initializer_range", "model.initializer_range", "0.02"),
      stored_type(),
      written("bos_token_id", "null"),
      written("eos_token_id", "null"),
      refused_unless("scale_attn_weights", "true", "attention without scaling is not supported"),
      refused_unless("scale_attn_by_inverse_layer_idx", "false",
                     "scaling attention by the layer's index is not supported"),
      refused_unless("add_cross_attention", "false", "cross-attention is not supported"),
  };
  return {.model_type = model_type,
          .name = name,
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(), heads, own}),
          .modules = {{"token_embedding", "transformer.wte"},
                      {"position_embedding", "transformer.wpe"},
                      {"attn_norm", "transformer.h.{}.ln_1"},
                      {"attn.q", "transformer.h.{}.attn.c_attn"},
                      {"attn.k", "transformer.h.{}.attn.c_attn"},
                      {"attn.v", "transformer.h.{}.attn.c_attn"},
                      {"attn.out", "transformer.h.{}.attn.c_proj"},
                      {"mlp_norm", "transformer.h.{}.ln_2"},
                      {"mlp.up", "transformer.h.{}.mlp.c_fc"},
                      {"mlp.down", "transformer.h.{}.mlp.c_proj"},
                      {"final_norm", "transformer.ln_f"},
                      {"head", "lm_head"}},
          .biases = StoredBiases::always};
}

}  // namespace

Family gpt2() {
  Family family = learned_positions("gpt2", "GPT-2",
                                    {written("architectures", R"(["GPT2LMHeadModel"])"),
                                     written("model_type", R"("gpt2")"), all_heads_have_keys()});
  family.stores_in_out = true;
  return family;
}

Family gpt_bigcode() {
  return learned_positions(
      "gpt_bigcode", "GPT-BigCode",
      {written("architectures", R"(["GPTBigCodeForCausalLM"])"), written("model_type", R"("gpt_bigcode")"),
       fixed("model.num_key_value_heads", "1", "one head of keys and values"),
       refused_unless("multi_query", "true",
                      "GPT-BigCode's packed heads of keys and values are not supported"),
       written("multi_query", "true"), ignored("attention_softmax_in_fp32"),
       ignored("scale_attention_softmax_in_fp32")});
}

}  // namespace hydrac::spec
