// Falcon-7B: attention with one head of keys and values and the mlp read one norm, side by side.
#include "spec/families/list.h"
#include "spec/families/rows.h"

namespace hydrac::spec {
Family falcon() {
  const std::vector<ModuleName> modules = {
      {"token_embedding", "transformer.word_embeddings"},
      {"attn_norm", "transformer.h.{}.input_layernorm"},
      {"attn.q", "transformer.h.{}.self_attention.query_key_value"},
      {"attn.k", "transformer.h.{}.self_attention.query_key_value"},
      {"attn.v", "transformer.h.{}.self_attention.query_key_value"},
      {"attn.out", "transformer.h.{}.self_attention.dense"},
      {"mlp.up", "transformer.h.{}.mlp.dense_h_to_4h"},
      {"mlp.down", "transformer.h.{}.mlp.dense_4h_to_h"},
      {"final_norm", "transformer.ln_f"},
      {"head", "lm_head"},
  };
  const Rows own = {
      written("architectures", R"(["FalconForCausalLM"])"),
      written("model_type", R"("falcon")"),
      fixed("model.block", "parallel_one_norm", "attention and an mlp that read one norm"),
      fixed("model.norm", "layernorm"),
      fixed("model.norm_bias", "true"),
      fixed("model.position", "rope"),
      fixed("model.num_key_value_heads", "1", "one head of keys and values"),
      only("model.rope_interleave", "false", "rope that turns the halves of a head together"),
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      heads_fill_width(),
      only("model.partial_rotary_factor", "1.0", "rope of whole heads"),
      packed("none"),
      needed("vocab_size", "model.vocab_size"),
      needed("hidden_size", "model.hidden_size"),
      needed("num_hidden_layers", "model.num_hidden_layers"),
      needed("num_attention_heads", "model.num_attention_heads"),
      optional("ffn_hidden_size", "model.intermediate_size"),
      longest_row("2048"),
      activation("activation", /*gated=*/false, "gelu"),
      linear_biases("bias", "false"),
      optional("layer_norm_epsilon", "model.norm_eps", "1e-5"),
      optional("rope_theta", "model.rope_theta", "10000"),
      optional("attention_dropout", "model.attention_dropout", "0"),
      refused_unless("hidden_dropout", "0.0", "dropout of both branches' sum is not supported"),
      optional("tie_word_embeddings", "model.tie_word_embeddings", "true"),
      optional("initializer_range", "model.initializer_range", "0.02"),
      stored_type(),
      refused_unless("parallel_attn", "true", "Falcon's sequential blocks are not supported"),
      refused_unless("multi_query", "true", "Falcon's packed heads of keys and values are not supported"),
      refused_unless("new_decoder_architecture", "false", "Falcon-40B's blocks are not supported"),
      refused_unless("alibi", "false", "alibi is not supported"),
      ignored("num_kv_heads"),
      ignored("num_ln_in_parallel_attn"),
  };
  return {.model_type = "falcon",
          .name = "Falcon",
          .rows = joined(
              {plain_rows(), input_norm_rows(), plain_stream_rows(), same_rope_rows(), own, last_rows()}),
          .modules = modules};
}

}  // namespace hydrac::spec
