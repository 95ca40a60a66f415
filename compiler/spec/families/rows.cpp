#include "spec/families/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec/hf_keys.h"
#include "spec/print.h"

namespace hydrac::spec {
namespace {

// "hidden_size" of "model.hidden_size": config.json becomes keys of that section.
std::string_view in_model(std::string_view path) {
  return path.substr(path.find('.') + 1);
}

std::string write_ours(const Spec& spec, const FamilyRow& row) {
  return key_json(spec, row.ours);
}

void read_optional(HfKeys& keys, const FamilyRow& row) {
  keys.map(row.theirs, in_model(row.ours), row.value);
}

void read_fixed(HfKeys& keys, const FamilyRow& row) {
  keys.constant(in_model(row.ours), row.value);
}

bool has_value(const Spec& spec, const FamilyRow& row) {
  const std::string ours = key_json(spec, row.ours);
  return ours == row.value || ours == fmt::format("\"{}\"", row.value);
}

std::string_view in_words(std::string_view value) {
  if (value == "true") return "it";
  return value == "false" || value == "0" || value == "0.0" ? "none" : value;
}

std::string write_value(const Spec&, const FamilyRow& row) {
  return std::string(row.value);
}

std::string write_window(const Spec& spec, const FamilyRow& row) {
  return spec.model.sliding_window > 0 ? key_json(spec, row.ours) : "";
}

std::string write_with_window(const Spec& spec, const FamilyRow& row) {
  return spec.model.sliding_window > 0 ? std::string(row.value) : "";
}

void read_switched_window(HfKeys& keys, const FamilyRow&) {
  keys.windows(true);
}

std::string write_rope_scaling(const Spec& spec, const FamilyRow&) {
  if (spec.model.rope_scaling.factor == 1) return "";
  const auto value = [&](const char* key) {
    return fmt::format("\"{}\": {}", key, key_json(spec, fmt::format("model.rope_scaling.{}", key)));
  };
  return fmt::format("{{{}, {}, {}, {}, {}}}", value("rope_type"), value("factor"), value("low_freq_factor"),
                     value("high_freq_factor"), value("original_max_position_embeddings"));
}

void read_rope(HfKeys& keys, const FamilyRow& row) {
  if (const Entry* entry = keys.take(row.theirs)) keys.rope(entry->value);
}

bool is_without_function(const Spec& spec, const FamilyRow&) {
  return !spec.model.hidden_act.function;
}

}  // namespace

FamilyRow needed(std::string_view theirs, std::string_view ours) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    keys.map_needed(row.theirs, in_model(row.ours));
  };
  return {theirs, ours, "", read, write_ours};
}

FamilyRow optional(std::string_view theirs, std::string_view ours, std::string_view if_absent) {
  return {theirs, ours, if_absent, read_optional, write_ours};
}

FamilyRow read_only(std::string_view theirs, std::string_view ours, std::string_view if_absent) {
  return {theirs, ours, if_absent, read_optional};
}

FamilyRow fixed(std::string_view ours, std::string_view value, std::string_view has) {
  return {"", ours, value, read_fixed, nullptr, has_value, has.empty() ? in_words(value) : has};
}

FamilyRow zeros_if_missing(std::string_view ours, std::string_view value) {
  return {"", ours, value, read_fixed};
}

FamilyRow refused_unless(std::string_view theirs, std::string_view value, std::string_view otherwise) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) { keys.must_be(row.theirs, row.value, row.has); };
  return {.theirs = theirs, .ours = "", .value = value, .read = read, .has = otherwise};
}

FamilyRow written(std::string_view theirs, std::string_view json) {
  return {.theirs = theirs, .ours = "", .value = json, .write = write_value};
}

FamilyRow also_written(std::string_view theirs, std::string_view ours) {
  return {.theirs = theirs, .ours = ours, .value = "", .write = write_ours};
}

FamilyRow rule(std::string_view ours, std::string_view has, bool (*holds)(const Spec&, const FamilyRow&)) {
  return {.theirs = "", .ours = ours, .value = "", .holds = holds, .has = has};
}

FamilyRow only(std::string_view ours, std::string_view value, std::string_view has) {
  return {.theirs = "",
          .ours = ours,
          .value = value,
          .holds = has_value,
          .has = has.empty() ? in_words(value) : has};
}

FamilyRow activation(std::string_view theirs, bool gated, std::string_view if_absent) {
  const auto write = [](const Spec& spec, const FamilyRow&) {
    return fmt::format("\"{}\"", activation_there(spec.model.hidden_act));
  };
  if (gated)
    return {theirs,
            "model.hidden_act",
            if_absent,
            [](HfKeys& keys, const FamilyRow& row) { keys.activation(row.theirs, true, row.value); },
            write,
            [](const Spec& s, const FamilyRow&) { return is_gated(s.model.hidden_act); },
            "a gated mlp"};
  return {theirs,
          "model.hidden_act",
          if_absent,
          [](HfKeys& keys, const FamilyRow& row) { keys.activation(row.theirs, false, row.value); },
          write,
          [](const Spec& s, const FamilyRow&) { return !is_gated(s.model.hidden_act); },
          "an mlp without a gate"};
}

FamilyRow residual_dropout(std::string_view theirs) {
  const auto read = [](HfKeys& keys, const FamilyRow&) { keys.same_dropouts(); };
  return {theirs, "model.dropout", "", read, write_ours};
}

FamilyRow stored_type() {
  const auto write = [](const Spec& spec, const FamilyRow&) -> std::string {
    return spec.optimizations.weights == WeightType::bf16 ? "\"bfloat16\"" : "\"float32\"";
  };
  return {.theirs = "torch_dtype", .ours = "", .value = "", .write = write};
}

FamilyRow attention_biases() {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    keys.map(row.theirs, "attention_bias", row.value);
    keys.map(row.theirs, "attention_output_bias", row.value);
  };
  const auto write = [](const Spec& s, const FamilyRow&) -> std::string {
    return s.model.attention_bias || s.model.attention_output_bias ? "true" : "false";
  };
  return {"attention_bias", "model.attention_bias", "false", read, write};
}

FamilyRow key_value_heads(std::string_view if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) { keys.key_value_heads(row.value); };
  return {"num_key_value_heads", "model.num_key_value_heads", if_absent, read, write_ours};
}

Rows joined(std::initializer_list<Rows> parts) {
  Rows rows;
  for (const Rows& part : parts) rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

Rows plain_rows() {
  return {only("model.input", "tokens"),
          only("model.head", "language_model", "the head of a language model"),
          rule("model.hidden_act", "activations by name alone, no function of your own", is_without_function),
          only("model.attention_kind", "gqa", "queries and keys that are neither compressed nor convolved"),
          only("model.mor.recursions", "1", "one pass through an mlp"),
          only("model.mod.capacity", "0.0", "layers that all tokens pass")};
}

FamilyRow heads_divide_width() {
  return rule(
      "model.num_attention_heads", "a divisor of hidden_size, whatever head_dim is",
      [](const Spec& s, const FamilyRow&) { return s.model.hidden_size % s.model.num_attention_heads == 0; });
}

Rows plain_score_rows() {
  return {
      rule("model.query_pre_attn_scalar", "head_dim",
           [](const Spec& s, const FamilyRow&) { return s.model.query_pre_attn_scalar == s.model.head_dim; }),
      only("model.attention_softcap", "0.0"), only("model.logit_softcap", "0.0")};
}

Rows plain_stream_rows() {
  return joined(
      {{only("model.norm_offset", "0.0"), only("model.scale_embedding", "false")}, plain_score_rows()});
}

Rows input_norm_rows() {
  return {only("model.norm_placement", "input", "norms of a branch's input alone")};
}

Rows rope_rows(const RopeFamily& family) {
  return {
      written("model_type", family.model_type),
      fixed("model.norm", "rmsnorm"),
      zeros_if_missing("model.norm_bias", "false"),
      fixed("model.position", "rope"),
      only("model.rope_interleave", "false", "rope that turns the halves of a head together"),
      needed("vocab_size", "model.vocab_size"),
      needed("hidden_size", "model.hidden_size"),
      needed("num_hidden_layers", "model.num_hidden_layers"),
      needed("num_attention_heads", "model.num_attention_heads"),
      key_value_heads(family.key_value_heads),
      optional("head_dim", "model.head_dim", family.head_dim),
      needed("intermediate_size", "model.intermediate_size"),
      needed("max_position_embeddings", "model.max_position_embeddings"),
      activation(family.activation_key, family.is_gated, family.activation),
      optional("rms_norm_eps", "model.norm_eps", family.norm_eps),
      optional("rope_theta", "model.rope_theta", "10000"),
      optional("attention_dropout", "model.attention_dropout", "0"),
      optional("tie_word_embeddings", "model.tie_word_embeddings", family.tied),
      optional("initializer_range", "model.initializer_range", "0.02"),
      stored_type(),
      written("architectures", family.architectures),
      refused_unless("use_mrope", "false", "multimodal rope is not supported"),
      {.theirs = "partial_rotary_factor",
       .ours = "",
       .value = "",
       .read = [](HfKeys& keys, const FamilyRow& row) { keys.refuses_part_of_head(keys.take(row.theirs)); }}};
}

Rows llama_rows(const RopeFamily& family) {
  return joined({plain_rows(),
                 input_norm_rows(),
                 plain_stream_rows(),
                 {read_only("attn_logit_softcapping", "model.attention_softcap"),
                  read_only("final_logit_softcapping", "model.logit_softcap")},
                 rope_rows(family)});
}

Rows last_rows() {
  return {{"rope_scaling", "model.rope_scaling.factor", "", read_rope, write_rope_scaling},
          {.theirs = "rope_parameters", .ours = "", .value = "", .read = read_rope},
          // The tokens that begin and end texts are in generation_config.json; without a word here,
          // transformers would take the ids that the family's own tokenizer has.
          written("bos_token_id", "null"),
          written("eos_token_id", "null")};
}

Rows switched_window_rows() {
  return {{"sliding_window", "model.sliding_window", "", read_switched_window, write_window},
          {.theirs = "use_sliding_window", .ours = "", .value = "true", .write = write_with_window},
          {.theirs = "max_window_layers", .ours = "", .value = "0", .write = write_with_window},
          {.theirs = "layer_types", .ours = "", .value = "", .write = [](const Spec& spec, const FamilyRow&) {
             return spec.model.sliding_window > 0 ? layer_types(spec.model) : "";
           }}};
}

FamilyRow nullable(std::string_view theirs, std::string_view ours, std::string_view if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    keys.map(row.theirs, in_model(row.ours), keys.config().find(row.theirs) == nullptr ? row.value : "");
  };
  const auto write = [](const Spec& spec, const FamilyRow& row) {
    const std::string value = key_json(spec, row.ours);
    return value == "0" || value == "0.0" ? "null" : value;
  };
  return {theirs, ours, if_absent, read, write};
}

Rows no_window_rows() {
  return {{"sliding_window", "model.sliding_window", "0", read_switched_window, nullptr, has_value, "none"}};
}

std::string layer_types(const Model& m) {
  std::string types;
  for (int64_t layer = 1; layer <= m.num_hidden_layers; ++layer) {
    const bool is_full =
        m.sliding_window == 0 || (m.sliding_window_pattern > 0 && layer % m.sliding_window_pattern == 0);
    types += fmt::format("{}\"{}\"", layer > 1 ? ", " : "", is_full ? "full_attention" : "sliding_attention");
  }
  return "[" + types + "]";
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
