// Llama with queries, keys and values in one stored tensor, gate and up in another, and rope of a part of a
// head.
#include <fmt/format.h>

#include <cmath>

#include "spec/families/list.h"
#include "spec/families/rows.h"
#include "spec/hugging_face/hf_keys.h"
#include "spec/print.h"

namespace hydrac::spec {
namespace {

// Older versions of transformers take a map of these three keys and nothing else; the factor follows from two
// lengths.
Rows scaling_rows() {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    if (const Entry* entry = keys.take(row.theirs)) keys.rope(entry->value);
  };
  const auto write = [](const Spec& spec, const FamilyRow&) -> std::string {
    const Model& m = spec.model;
    if (!scales_rope(m)) return "null";
    std::string text = R"({"type": "longrope")";
    for (const char* key : {"short_factor", "long_factor"})
      text += fmt::format(R"(, "{}": {})", key, key_json(spec, fmt::format("model.rope_scaling.{}", key)));
    RopeScaling usual = m.rope_scaling;
    usual.factor = static_cast<double>(m.max_position_embeddings) /
                   static_cast<double>(usual.original_max_position_embeddings);
    constexpr double kRounding = 1e-9;
    if (std::abs(usual.attention_factor - usual_attention_factor(usual)) > kRounding)
      text +=
          fmt::format(R"(, "attention_factor": {})", key_json(spec, "model.rope_scaling.attention_factor"));
    return text + "}";
  };
  const auto holds = [](const Spec& spec, const FamilyRow&) {
    return !scales_rope(spec.model) || scales_rope(spec.model, RopeType::longrope);
  };
  const auto write_length = [](const Spec& spec, const FamilyRow& row) {
    return scales_rope(spec.model) ? key_json(spec, row.ours) : "";
  };
  return {{"rope_scaling", "model.rope_scaling.factor", "", read, write, holds,
           "rope without scaling, or longrope's"},
          {.theirs = "rope_parameters", .ours = "", .value = "", .read = read},
          {.theirs = "original_max_position_embeddings",
           .ours = "model.rope_scaling.original_max_position_embeddings",
           .value = "",
           .read = [](HfKeys& keys, const FamilyRow& row) { keys.take(row.theirs); },
           .write = write_length}};
}

}  // namespace

Family phi3() {
  const Rows own = {
      only("model.qk_norm", "false"),
      no_padding(),
      fixed("model.attention_bias", "false"),
      fixed("model.attention_output_bias", "false"),
      fixed("model.mlp_bias", "false"),
      window_row("0"),
      rule("model.sliding_window_pattern", "windows in all layers or in none", has_alike_windows),
      refused_unless("resid_pdrop", "0.0", "dropout that a checkpoint asks for is not supported"),
      refused_unless("embd_pdrop", "0.0", "dropout that a checkpoint asks for is not supported"),
  };
  return {.model_type = "phi3",
          .name = "Phi-3",
          .rows = joined({plain_rows(), input_norm_rows(), plain_stream_rows(), same_rope_rows(),
                          rope_rows({.model_type = R"("phi3")",
                                     .architectures = R"(["Phi3ForCausalLM"])",
                                     .key_value_heads = "",
                                     .norm_eps = "1e-5",
                                     .partial = "1.0",
                                     .packed = "qkv_gate_up"}),
                          own, scaling_rows(), no_token_rows()}),
          .modules = llama_modules({{"attn.q", "model.layers.{}.self_attn.qkv_proj"},
                                    {"attn.k", "model.layers.{}.self_attn.qkv_proj"},
                                    {"attn.v", "model.layers.{}.self_attn.qkv_proj"},
                                    {"mlp.gate", "model.layers.{}.mlp.gate_up_proj"},
                                    {"mlp.up", "model.layers.{}.mlp.gate_up_proj"}})};
}

}  // namespace hydrac::spec
