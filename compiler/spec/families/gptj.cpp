// Attention and mlp read one layernorm, rope turns neighbours of a head's first elements, biases of mlp and
// head.
#include <cmath>

#include "spec/families/list.h"
#include "spec/families/rows.h"
#include "spec/hugging_face/hf_keys.h"
#include "spec/reader/scalar.h"

namespace hydrac::spec {
namespace {

// The elements of a head that rope turns; read behind n_embd and n_head.
FamilyRow rotary_dim() {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    const Entry* turned = keys.take(row.theirs);
    const double count =
        turned != nullptr ? number_of(turned->value).value_or(0) : std::stod(row.value.data());
    const double width =
        keys.number("hidden_size").value_or(1) / keys.number("num_attention_heads").value_or(1);
    double factor = count / width;
    if (std::floor(factor * width) < count) factor = std::nextafter(factor, 1);  // rope_width() rounds down
    keys.constant("partial_rotary_factor", yaml_number(factor));
  };
  const auto write = [](const Spec& spec, const FamilyRow&) {
    return std::to_string(rope_width(spec.model));
  };
  return {"rotary_dim", "model.partial_rotary_factor", "64", read, write};
}

}  // namespace

Family gptj() {
  const Rows own = {
      written("architectures", R"(["GPTJForCausalLM"])"),
      written("model_type", R"("gptj")"),
      fixed("model.block", "parallel_one_norm", "attention and an mlp that read one norm"),
      fixed("model.norm", "layernorm"),
      fixed("model.norm_bias", "true"),
      fixed("model.position", "rope"),
      fixed("model.rope_interleave", "true", "rope that turns neighbours of a head together"),
      fixed("model.rope_theta", "10000.0"),
      rule("model.rope_scaling.factor", "rope without scaling",
           [](const Spec& s, const FamilyRow&) { return !scales_rope(s.model); }),
      only("model.qk_norm", "false"),
      only("model.sliding_window", "0"),
      heads_fill_width(),
      all_heads_have_keys(),
      packed("none"),
      fixed("model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "true"),
      needed("vocab_size", "model.vocab_size"),
      needed("n_positions", "model.max_position_embeddings"),
      needed("n_embd", "model.hidden_size"),
      needed("n_layer", "model.num_hidden_layers"),
      needed("n_head", "model.num_attention_heads"),
      optional("n_inner", "model.intermediate_size"),
      rotary_dim(),
      activation("activation_function", /*gated=*/false, "gelu_tanh"),
      optional("layer_norm_epsilon", "model.norm_eps", "1e-5"),
      residual_dropout("resid_pdrop", "0"),
      also_written("embd_pdrop", "model.dropout"),
      optional("attn_pdrop", "model.attention_dropout", "0"),
      optional("tie_word_embeddings", "model.tie_word_embeddings", "false"),
      optional("initializer_range", "model.initializer_range", "0.02"),
      stored_type(),
  };
  return {.model_type = "gptj",
          .name = "GPT-J",
          .rows = joined({plain_rows({.has_head_bias = true}), input_norm_rows(), plain_stream_rows(),
                          same_rope_rows(), own, no_token_rows()}),
          .modules = {{"token_embedding", "transformer.wte"},
                      {"attn_norm", "transformer.h.{}.ln_1"},
                      {"attn.q", "transformer.h.{}.attn.q_proj"},
                      {"attn.k", "transformer.h.{}.attn.k_proj"},
                      {"attn.v", "transformer.h.{}.attn.v_proj"},
                      {"attn.out", "transformer.h.{}.attn.out_proj"},
                      {"mlp.up", "transformer.h.{}.mlp.fc_in"},
                      {"mlp.down", "transformer.h.{}.mlp.fc_out"},
                      {"final_norm", "transformer.ln_f"},
                      {"head", "lm_head"}}};
}

}  // namespace hydrac::spec
