// Rows that families share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "spec/families/rows.h"
#include "spec/hugging_face/hf_keys.h"
#include "spec/print.h"
#include "spec/reader/scalar.h"

namespace hydrac::spec {
namespace {

std::string write_rope_scaling(const Spec& spec, const FamilyRow&) {
  return scales_rope(spec.model) ? rope_scaling(spec) : "";
}

void read_rope(HfKeys& keys, const FamilyRow& row) {
  if (const Entry* entry = keys.take(row.theirs)) keys.rope(entry->value);
}

// Some families turn whole heads, whatever config.json says.
FamilyRow whole_head() {
  FamilyRow row = only("model.partial_rotary_factor", "1.0", "rope of whole heads");
  row.theirs = "partial_rotary_factor";
  row.read = [](HfKeys& keys, const FamilyRow& row) { keys.refuses_part_of_head(keys.take(row.theirs)); };
  return row;
}

FamilyRow part_of_head(std::string_view theirs, std::string_view if_absent) {
  FamilyRow row = optional(theirs, "model.partial_rotary_factor", if_absent);
  row.read = [](HfKeys& keys, const FamilyRow& row) { keys.part_of_head(row.theirs, row.value); };
  return row;
}

FamilyRow block_row(std::string_view block) {
  if (block == "sequential")
    return only("model.block", block, "attention first, and then the mlp of the sum");
  if (block == "parallel_one_norm")
    return fixed("model.block", block, "attention and an mlp that read one norm");
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    const Entry* parallel = keys.take(row.theirs);
    keys.constant("block",
                  parallel != nullptr && parallel->value.text == "false" ? "sequential" : "parallel");
  };
  const auto write = [](const Spec& spec, const FamilyRow&) -> std::string {
    return spec.model.block == BlockKind::parallel ? "true" : "false";
  };
  const auto holds = [](const Spec& spec, const FamilyRow&) {
    return spec.model.block != BlockKind::parallel_one_norm;
  };
  return {"use_parallel_residual",
          "model.block",
          "",
          read,
          write,
          holds,
          "attention and an mlp with a norm each"};
}

bool has_several_mlps(const Spec& spec, const FamilyRow&) {
  return has_experts(spec);
}

bool is_without_function(const Spec& spec, const FamilyRow&) {
  return !spec.model.hidden_act.function;
}

}  // namespace

Rows joined(std::initializer_list<Rows> parts) {
  Rows rows;
  for (const Rows& part : parts) rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

Rows plain_rows(const PlainFamily& family) {
  return {only("model.input", "tokens"),
          only("model.head", "language_model", "the head of a language model"),
          family.has_head_bias ? fixed("model.head_bias", "true") : only("model.head_bias", "false"),
          rule("model.hidden_act", "activations by name alone, no function of your own", is_without_function),
          only("model.attention_kind", "gqa", "queries and keys that are neither compressed nor convolved"),
          only("model.mor.recursions", "1", "one pass through an mlp"),
          only("model.mod.capacity", "0.0", "layers that all tokens pass"),
          family.has_experts ? rule("model.moe.experts", "experts in each block", has_several_mlps)
                             : only("model.moe.experts", "0", "one mlp in each block")};
}

FamilyRow root_of_width() {
  const auto read = [](HfKeys& keys, const FamilyRow&) {
    keys.constant("embedding_scale", yaml_number(std::sqrt(keys.number("hidden_size").value_or(1))));
  };
  const auto holds = [](const Spec& spec, const FamilyRow&) {
    constexpr double kRounding = 1e-6;
    const double root = std::sqrt(static_cast<double>(spec.model.hidden_size));
    return std::abs(spec.model.embedding_scale / root - 1) < kRounding;
  };
  return {"", "model.embedding_scale", "", read, nullptr, holds, "sqrt(hidden_size)"};
}

Rows same_rope_rows() {
  return {only("model.no_rope_pattern", "0", "rope in all layers"),
          only("model.rope_local_theta", "0.0", "one base of rope")};
}

Rows plain_stream_rows(std::initializer_list<std::string_view> other) {
  const auto is_usual = [](const Spec& s, const FamilyRow&) {
    return s.model.attention_scale == 1 / std::sqrt(static_cast<double>(s.model.head_dim));
  };
  Rows rows = {only("model.norm_offset", "0.0"),
               only("model.embedding_scale", "1.0", "1"),
               only("model.residual_scale", "1.0", "1"),
               only("model.logit_scale", "1.0", "1"),
               rule("model.attention_scale", "1 / sqrt(head_dim)", is_usual),
               only("model.attention_softcap", "0.0"),
               only("model.logit_softcap", "0.0")};
  std::erase_if(rows,
                [&](const FamilyRow& row) { return std::ranges::find(other, row.ours) != other.end(); });
  return rows;
}

FamilyRow longest_row(std::string_view if_absent) {
  const std::string_view theirs = "max_position_embeddings", ours = "model.max_position_embeddings";
  FamilyRow row = needed(theirs, ours, if_absent);
  row.write = [](const Spec& spec, const FamilyRow& row) {
    return key_json(spec, scales_rope(spec.model, RopeType::dynamic)
                              ? "model.rope_scaling.original_max_position_embeddings"
                              : row.ours);
  };
  return row;
}

Rows input_norm_rows() {
  return {only("model.norm_placement", "input", "norms of a branch's input alone")};
}

Rows rope_rows(const RopeFamily& family) {
  return {written("model_type", family.model_type),
          block_row(family.block),
          fixed("model.norm", family.has_layernorm ? "layernorm" : "rmsnorm"),
          !family.has_layernorm ? zeros_if_missing("model.norm_bias", "false")
                                : fixed("model.norm_bias", family.has_norm_bias ? "true" : "false"),
          fixed("model.position", "rope"),
          family.interleaves
              ? fixed("model.rope_interleave", "true", "rope that turns neighbours of a head together")
              : only("model.rope_interleave", "false", "rope that turns the halves of a head together"),
          family.partial.empty() ? whole_head() : part_of_head(family.partial_key, family.partial),
          packed(family.packed),
          needed("vocab_size", "model.vocab_size", family.vocab_size),
          needed("hidden_size", "model.hidden_size"),
          needed("num_hidden_layers", "model.num_hidden_layers"),
          needed("num_attention_heads", "model.num_attention_heads", family.heads),
          key_value_heads(family.key_value_heads),
          optional("head_dim", "model.head_dim", family.head_dim),
          needed("intermediate_size", "model.intermediate_size"),
          longest_row(family.longest),
          activation(family.activation_key, family.is_gated, family.activation),
          optional(family.norm_eps_key, "model.norm_eps", family.norm_eps),
          optional(family.theta_key, "model.rope_theta", family.theta),
          optional("attention_dropout", "model.attention_dropout", "0"),
          optional("tie_word_embeddings", "model.tie_word_embeddings", family.tied),
          optional("initializer_range", "model.initializer_range", "0.02"),
          stored_type(),
          written("architectures", family.architectures),
          refused_unless("use_mrope", "false", "multimodal rope is not supported")};
}

Rows llama_rows(const RopeFamily& family) {
  return joined({plain_rows({.has_experts = family.has_experts}),
                 input_norm_rows(),
                 plain_stream_rows(),
                 same_rope_rows(),
                 {read_only("attn_logit_softcapping", "model.attention_softcap"),
                  read_only("final_logit_softcapping", "model.logit_softcap")},
                 rope_rows(family)});
}

Rows expert_rows(const ExpertFamily& family) {
  FamilyRow experts = optional(family.count, "model.moe.experts", family.experts);
  experts.read = [](HfKeys& keys, const FamilyRow& row) { keys.experts(row.theirs, row.value); };
  return {experts,
          optional("num_experts_per_tok", "model.moe.top_k", family.top_k),
          optional("router_aux_loss_coef", "model.moe.aux_loss_coef", family.aux_loss),
          ignored("output_router_logits"),
          only("model.moe.scoring", "softmax"),
          only("model.moe.routed_scale", "1.0", "1")};
}

FamilyRow experts_of_mlp_width() {
  const auto holds = [](const Spec& spec, const FamilyRow&) {
    return spec.model.moe.intermediate_size == spec.model.intermediate_size;
  };
  return rule("model.moe.intermediate_size", "experts as wide as intermediate_size", holds);
}

FamilyRow normalized_weights() {
  return optional("norm_topk_prob", "model.moe.normalize_top_k", "false");
}

std::string rope_scaling(const Spec& spec) {
  const RopeScaling& scaling = spec.model.rope_scaling;
  if (!scales_rope(spec.model)) return "null";
  std::vector<std::string_view> keys = {"rope_type", "factor"};
  if (scaling.rope_type == RopeType::llama3) keys.insert(keys.end(), {"low_freq_factor", "high_freq_factor"});
  if (scaling.rope_type == RopeType::yarn)
    keys.insert(keys.end(), {"attention_factor", "beta_fast", "beta_slow", "truncate"});
  if (scaling.rope_type == RopeType::longrope)
    keys.insert(keys.end(), {"attention_factor", "short_factor", "long_factor"});
  if (scaling.rope_type != RopeType::linear && scaling.rope_type != RopeType::dynamic)
    keys.emplace_back("original_max_position_embeddings");
  std::string text;
  for (const std::string_view key : keys)
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", key,
                        key_json(spec, fmt::format("model.rope_scaling.{}", key)));
  return "{" + text + "}";
}

Rows rope_scaling_rows() {
  return {{"rope_scaling", "model.rope_scaling.factor", "", read_rope, write_rope_scaling},
          {.theirs = "rope_parameters", .ours = "", .value = "", .read = read_rope}};
}

Rows no_token_rows() {
  return {written("bos_token_id", "null"), written("eos_token_id", "null")};
}

Rows last_rows() {
  return joined({rope_scaling_rows(), no_token_rows()});
}

std::vector<ModuleName> llama_modules(std::initializer_list<ModuleName> changed) {
  std::vector<ModuleName> modules = {
      {"token_embedding", "model.embed_tokens"},
      {"attn_norm", "model.layers.{}.input_layernorm"},
      {"attn.q", "model.layers.{}.self_attn.q_proj"},
      {"attn.k", "model.layers.{}.self_attn.k_proj"},
      {"attn.v", "model.layers.{}.self_attn.v_proj"},
      {"attn.q_norm", "model.layers.{}.self_attn.q_norm"},
      {"attn.k_norm", "model.layers.{}.self_attn.k_norm"},
      {"attn.out", "model.layers.{}.self_attn.o_proj"},
      {"mlp_norm", "model.layers.{}.post_attention_layernorm"},
      {"mlp.gate", "model.layers.{}.mlp.gate_proj"},
      {"mlp.up", "model.layers.{}.mlp.up_proj"},
      {"mlp.down", "model.layers.{}.mlp.down_proj"},
      {"router", "model.layers.{}.mlp.gate"},
      {"experts.gate", "model.layers.{}.mlp.experts.*.gate_proj"},
      {"experts.up", "model.layers.{}.mlp.experts.*.up_proj"},
      {"experts.down", "model.layers.{}.mlp.experts.*.down_proj"},
      {"final_norm", "model.norm"},
      {"head", "lm_head"},
      // These are of models that no family has.
      {"position_embedding", "model.embed_positions"},
      {"attn_output_norm", "model.layers.{}.attn_output_norm"},
      {"mlp_output_norm", "model.layers.{}.mlp_output_norm"},
  };
  for (const ModuleName& change : changed)
    std::ranges::find(modules, change.ours, &ModuleName::ours)->theirs = change.theirs;
  return modules;
}

}  // namespace hydrac::spec
