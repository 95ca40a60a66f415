// Rows of what differs between layers: windows and rope.
#include <fmt/format.h>

#include "spec/families/rows.h"
#include "spec/hugging_face/hf_keys.h"
#include "spec/print.h"

namespace hydrac::spec {
namespace {

std::string write_window(const Spec& spec, const FamilyRow& row) {
  return spec.model.sliding_window > 0 ? key_json(spec, row.ours) : "";
}

std::string write_with_window(const Spec& spec, const FamilyRow& row) {
  return spec.model.sliding_window > 0 ? std::string(row.value) : "";
}

void read_switched_window(HfKeys& keys, const FamilyRow&) {
  keys.windows(true);
}

}  // namespace

FamilyRow window_row(std::string_view if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) { keys.windows_or(row.value); };
  const auto write = [](const Spec& spec, const FamilyRow&) {
    return spec.model.sliding_window > 0 ? std::to_string(spec.model.sliding_window) : "null";
  };
  return {"sliding_window", "model.sliding_window", if_absent, read, write};
}

Rows window_rows(std::string_view if_absent, std::string_view period_if_absent) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) { keys.window_period(row.value); };
  const auto write = [](const Spec& spec, const FamilyRow&) { return layer_types(spec.model); };
  return {window_row(if_absent),
          {"layer_types", "model.sliding_window_pattern", period_if_absent, read, write}};
}

FamilyRow window_anyway() {
  return {
      .theirs = "sliding_window", .ours = "", .value = "", .write = [](const Spec& spec, const FamilyRow&) {
        const Model& m = spec.model;
        return std::to_string(m.sliding_window > 0 ? m.sliding_window : m.max_position_embeddings);
      }};
}

bool has_alike_windows(const Spec& spec, const FamilyRow&) {
  return spec.model.sliding_window == 0 || spec.model.sliding_window_pattern == 0;
}

Rows local_rope_rows(std::string_view theta) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    for (const char* key : {"rope_scaling", "rope_parameters"})
      if (const Entry* entry = keys.take(key)) keys.rope_by_layer(entry->value);
    keys.settle_local_theta(row.value);
  };
  const auto write = [](const Spec& spec, const FamilyRow&) {
    const Model& m = spec.model;
    const std::string theta = key_json(spec, "model.rope_theta"), scaling = rope_scaling(spec);
    const std::string full =
        scaling == "null" ? R"({"rope_type": "default")" : scaling.substr(0, scaling.size() - 1);
    return fmt::format(
        R"({{"full_attention": {}, "rope_theta": {}}}, "sliding_attention": {{"rope_type": "default", "rope_theta": {}}}}})",
        full, theta, m.rope_local_theta > 0 ? key_json(spec, "model.rope_local_theta") : theta);
  };
  const auto holds = [](const Spec& spec, const FamilyRow&) {
    const Model& m = spec.model;
    return m.rope_local_theta > 0 || !scales_rope(m) || m.sliding_window == 0;
  };
  return {only("model.no_rope_pattern", "0", "rope in all layers"),
          read_only("rope_local_base_freq", "model.rope_local_theta"),
          {"rope_parameters", "model.rope_local_theta", theta, read, write, holds,
           "rope without scaling in layers with a window"}};
}

Rows rope_in_windows_rows(std::string_view without_windows) {
  const auto read = [](HfKeys& keys, const FamilyRow& row) {
    const Node* period = keys.so_far("sliding_window_pattern");
    const bool has_window = keys.so_far("sliding_window") != nullptr;
    // A window that no layer has leaves all without rope.
    const bool is_unused = !has_window && keys.take("sliding_window") != nullptr;
    if (period != nullptr) keys.set("no_rope_pattern", period->where, *period);
    if (is_unused || (!has_window && row.value == "1")) keys.constant("no_rope_pattern", "1");
  };
  const auto holds = [](const Spec& spec, const FamilyRow& row) {
    const Model& m = spec.model;
    return m.no_rope_pattern == (m.sliding_window > 0 ? m.sliding_window_pattern : row.value == "1");
  };
  return {{.theirs = "",
           .ours = "model.no_rope_pattern",
           .value = without_windows,
           .read = read,
           .holds = holds,
           .has = without_windows == "1" ? "rope in layers with a window, and in none where none has one"
                                         : "rope in layers with a window, and in all where none has one"}};
}

Rows switched_window_rows() {
  return {{"sliding_window", "model.sliding_window", "", read_switched_window, write_window},
          {.theirs = "use_sliding_window", .ours = "", .value = "true", .write = write_with_window},
          {.theirs = "max_window_layers", .ours = "", .value = "0", .write = write_with_window},
          {.theirs = "layer_types", .ours = "", .value = "", .write = [](const Spec& spec, const FamilyRow&) {
             return spec.model.sliding_window > 0 ? layer_types(spec.model) : "";
           }}};
}

Rows no_window_rows() {
  FamilyRow row = only("model.sliding_window", "0");
  row.theirs = "sliding_window";
  row.read = read_switched_window;
  return {row};
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

}  // namespace hydrac::spec
