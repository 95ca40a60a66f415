#include "spec/families/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "spec/hugging_face/hf_keys.h"
#include "spec/print.h"
#include "spec/reader/scalar.h"

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

// Without the digits that rounding leaves behind: 9 for 9.000000000000002.
std::string short_number(double number) {
  return fmt::format("{:.14g}", number);
}

}  // namespace

FamilyRow needed(std::string_view theirs, std::string_view ours, std::string_view if_absent) {
  if (!if_absent.empty()) return optional(theirs, ours, if_absent);
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

FamilyRow residual_dropout(std::string_view theirs, std::string_view if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) { keys.same_dropouts(row.theirs, row.value); };
  return {theirs, "model.dropout", if_absent, read, write_ours};
}

FamilyRow stored_type() {
  const auto write = [](const Spec& spec, const FamilyRow&) -> std::string {
    return spec.optimizations.weights == WeightType::bf16 ? "\"bfloat16\"" : "\"float32\"";
  };
  return {.theirs = "torch_dtype", .ours = "", .value = "", .write = write};
}

FamilyRow attention_biases(std::string_view if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    keys.map(row.theirs, "attention_bias", row.value);
    keys.map(row.theirs, "attention_output_bias", row.value);
  };
  const auto write = [](const Spec& s, const FamilyRow&) -> std::string {
    return s.model.attention_bias || s.model.attention_output_bias ? "true" : "false";
  };
  return {"attention_bias", "model.attention_bias", if_absent, read, write};
}

FamilyRow linear_biases(std::string_view theirs, std::string_view if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    for (const char* ours : {"attention_bias", "attention_output_bias", "mlp_bias"})
      keys.map(row.theirs, ours, row.value);
  };
  const auto are_equal = [](const Spec& s, const FamilyRow&) {
    return s.model.attention_output_bias == s.model.attention_bias &&
           s.model.mlp_bias == s.model.attention_bias;
  };
  return {theirs, "model.attention_bias", if_absent, read, write_ours, are_equal, "all biases or none"};
}

FamilyRow packed(std::string_view word) {
  if (word == "none") return only("model.packed_weights", word, "a tensor for each projection");
  if (word == "qkv_by_head")
    return fixed("model.packed_weights", word, "queries, keys and values of a head together");
  FamilyRow row = queries_together();
  row.value = word;
  row.read = read_fixed;
  return row;
}

FamilyRow queries_together() {
  return rule("model.packed_weights", "queries of all heads together", [](const Spec& s, const FamilyRow&) {
    return s.model.packed_weights != PackedWeights::qkv_by_head;
  });
}

FamilyRow all_heads_have_keys() {
  return rule("model.num_key_value_heads", "as many as query heads", [](const Spec& s, const FamilyRow&) {
    return s.model.num_key_value_heads == s.model.num_attention_heads;
  });
}

FamilyRow key_value_heads(std::string_view if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) { keys.key_value_heads(row.value); };
  return {"num_key_value_heads", "model.num_key_value_heads", if_absent, read, write_ours};
}

FamilyRow heads_divide_width() {
  return rule(
      "model.num_attention_heads", "a divisor of hidden_size, whatever head_dim is",
      [](const Spec& s, const FamilyRow&) { return s.model.hidden_size % s.model.num_attention_heads == 0; });
}

FamilyRow heads_fill_width() {
  return rule("model.head_dim", "hidden_size / num_attention_heads", [](const Spec& s, const FamilyRow&) {
    return s.model.head_dim * s.model.num_attention_heads == s.model.hidden_size;
  });
}

FamilyRow reciprocal(std::string_view theirs, std::string_view ours, std::string_view if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    keys.computed(row.theirs, in_model(row.ours), row.value, [](double theirs) { return 1 / theirs; });
  };
  const auto write = [](const Spec& spec, const FamilyRow& row) {
    return short_number(1 / std::stod(key_json(spec, row.ours)));
  };
  return {theirs, ours, if_absent, read, write};
}

FamilyRow inverse_square(std::string_view theirs, std::string_view ours, std::string_view if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    keys.computed(row.theirs, in_model(row.ours), row.value,
                  [](double theirs) { return 1 / std::sqrt(theirs); });
  };
  const auto write = [](const Spec& spec, const FamilyRow& row) {
    return short_number(std::pow(std::stod(key_json(spec, row.ours)), -2));
  };
  return {theirs, ours, if_absent, read, write};
}

FamilyRow no_padding() {
  return written("pad_token_id", "null");
}

FamilyRow ignored(std::string_view theirs) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) { keys.take(row.theirs); };
  return {.theirs = theirs, .ours = "", .value = "", .read = read};
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

}  // namespace hydrac::spec
