#include "spec/peft_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "diag/render.h"
#include "spec/scalar.h"
#include "spec/source.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

// Theirs and ours.
constexpr auto kPeftKeys =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"r", "r"},
                                                                  {"lora_alpha", "alpha"},
                                                                  {"use_rslora", "rslora"},
                                                                  {"lora_dropout", "dropout"},
                                                                  {"target_modules", "target_modules"}});

// Keys that say nothing about what an adapter computes once it is trained, and fan_in_fan_out, which the
// model says.
constexpr auto kWithoutEffect = std::to_array<std::string_view>(
    {"auto_mapping", "base_model_name_or_path", "fan_in_fan_out", "inference_mode", "init_lora_weights",
     "megatron_core", "peft_version", "qalora_group_size", "revision", "runtime_config", "task_type"});

bool is_off(const Node& value) {
  switch (value.kind) {
    case Node::Kind::null:
      return true;
    case Node::Kind::scalar:
      return !value.quoted && (value.text == "false" || value.text == "null");
    case Node::Kind::list:
      return value.items.empty();
    case Node::Kind::map:
      return value.entries.empty();
  }
  return false;
}

bool is_word(const Entry& entry, std::string_view key, std::string_view word) {
  return entry.key == key && entry.value.kind == Node::Kind::scalar && entry.value.text == word;
}

void report_unsupported(diag::Diagnostics& diagnostics, const Entry& entry) {
  diagnostics.report(Kind::adapter_unsupported, entry.where,
                     fmt::format("hydrac's adapters have no {}", diag::printable(entry.key)),
                     "adapters of A and B alone, of one rank, are LoRA here");
}

Node read_adapter(const Node& config, diag::Diagnostics& diagnostics) {
  Node adapter{.kind = Node::Kind::map, .where = config.where};
  for (const Entry& entry : config.entries) {
    const auto key =
        std::ranges::find(kPeftKeys, entry.key, &std::pair<std::string_view, std::string_view>::first);
    if (key != kPeftKeys.end()) {
      adapter.set({std::string(key->second), entry.where, entry.value});
    } else if (is_word(entry, "peft_type", "LORA")) {
      adapter.set({"type", entry.where, {.kind = Node::Kind::scalar, .where = entry.where, .text = "lora"}});
    } else if (std::ranges::find(kWithoutEffect, entry.key) == kWithoutEffect.end() &&
               !is_word(entry, "bias", "none") && !is_off(entry.value)) {
      report_unsupported(diagnostics, entry);
    }
  }
  return adapter;
}

// A text is a regular expression there.
void check_modules(const Node& adapter, const Node& written, diag::Diagnostics& diagnostics) {
  const Entry* modules = adapter.find("target_modules");
  if (modules == nullptr || modules->value.kind != Node::Kind::scalar ||
      modules->value.text == "all-linear" || written.find("target_modules") != nullptr)
    return;
  diagnostics.report(Kind::adapter_unsupported, modules->value.where,
                     "target_modules is a regular expression, which hydrac does not read",
                     "write adapter.target_modules in the spec, as a list");
}

}  // namespace

std::optional<Node> read_peft_config(const std::string& path, const diag::Location& wanted_by,
                                     const Node& written, diag::Diagnostics& diagnostics) {
  const std::optional<Node> config = read_map(path, wanted_by, diagnostics);
  if (!config) return std::nullopt;
  const size_t errors = diagnostics.errors();
  if (config->find("peft_type") == nullptr)
    diagnostics.report(Kind::adapter_unsupported, config->where, "this adapter_config.json has no peft_type",
                       "LORA is supported");
  Node adapter = read_adapter(*config, diagnostics);
  check_modules(adapter, written, diagnostics);
  if (diagnostics.errors() != errors) return std::nullopt;
  return adapter;
}

}  // namespace hydrac::spec
