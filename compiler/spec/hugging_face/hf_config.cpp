#include "spec/hugging_face/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "diag/render.h"
#include "spec/hugging_face/family.h"
#include "spec/hugging_face/hf_keys.h"
#include "spec/hugging_face/hugging_face.h"
#include "spec/print.h"
#include "spec/reader/source.h"

namespace hydrac::spec {
namespace {

using Json = nlohmann::ordered_json;

// "gpt2, llama and qwen3 are"
std::string known_types() {
  std::vector<std::string_view> types;
  for (const Family& family : families()) types.push_back(family.model_type);
  std::ranges::sort(types);
  const std::string_view last = types.back();
  types.pop_back();
  return fmt::format("{} and {} are", fmt::join(types, ", "), last);
}

// Everything in a config.json that a family's table does not understand.
std::vector<diag::Diagnostic> differences(const Node& config, const Family& family) {
  const Node nothing{.kind = Node::Kind::map};
  diag::Diagnostics found;
  HfKeys keys(config, nothing, found);
  for (const FamilyRow& row : family.rows)
    if (row.read != nullptr) row.read(keys, row);
  keys.report_unknown();
  return found.all();
}

// Names the family that understands the most, and the first key that it does not.
void report_unknown_family(HfKeys& keys, const std::string& type) {
  const Family* closest = nullptr;
  std::vector<diag::Diagnostic> fewest;
  for (const Family& family : families()) {
    std::vector<diag::Diagnostic> found = differences(keys.config(), family);
    if (closest != nullptr && found.size() >= fewest.size()) continue;
    closest = &family;
    fewest = std::move(found);
  }
  const std::vector<Entry>& entries = keys.config().entries;
  const bool is_close = 2 * fewest.size() < entries.size();
  keys.unsupported(keys.where(), fmt::format("models of type {} are not supported", diag::printable(type)),
                   known_types() + (is_close ? fmt::format("; {} is closest", closest->model_type) : ""));
  if (!is_close) return;
  std::ranges::stable_sort(fewest, {},
                           [](const diag::Diagnostic& d) { return std::pair(d.where.line, d.where.col); });
  // Keys that are missing have the place of model_type.
  const auto first =
      std::ranges::find_if(fewest, [&](const diag::Diagnostic& d) { return d.where != keys.where(); });
  if (first == fewest.end()) return;
  const auto unknown = std::ranges::find(entries, first->where, &Entry::where);
  const bool is_unknown = first->kind == diag::Kind::config_key_ignored && unknown != entries.end();
  keys.unsupported(first->where,
                   is_unknown ? fmt::format("{} has no {}", closest->name, diag::printable(unknown->key))
                              : fmt::format("{} differs: {}", closest->name, first->message));
}

Node read_model(HfKeys& keys) {
  const Entry* type = keys.take("model_type");
  if (const Family* family = type == nullptr ? nullptr : find_family(type->value.text)) {
    for (const FamilyRow& row : family->rows)
      if (row.read != nullptr) row.read(keys, row);
    keys.report_unknown();
    keys.warn_beyond_trained_length();
    return keys.take_model();
  }
  if (type == nullptr)
    keys.unsupported(keys.where(), "this config.json has no model_type", known_types());
  else
    report_unknown_family(keys, type->value.text);
  return keys.take_model();
}

// The text part of a model that reads images or sound too, where it is of a family: a config.json by itself.
std::optional<Node> text_part(const Node& config, diag::Diagnostics& diagnostics) {
  const Entry *type = config.find("model_type"), *part = config.find("text_config");
  if (type == nullptr || part == nullptr || find_family(type->value.text) != nullptr) return std::nullopt;
  const Entry* type_of_part = part->value.find("model_type");
  if (type_of_part == nullptr || find_family(type_of_part->value.text) == nullptr) return std::nullopt;
  diagnostics.report(diag::Kind::config_key_ignored, type->where,
                     fmt::format("{} reads more than text, and only its text part is used: text_config, a {}",
                                 diag::printable(type->value.text), type_of_part->value.text));
  Node text = part->value;
  const Entry* tied = config.find("tie_word_embeddings");
  if (tied != nullptr && text.find("tie_word_embeddings") == nullptr) text.entries.push_back(*tied);
  return text;
}

// No Hugging Face architecture says this model; the spec's own keys do.
Json own_keys(const Spec& spec) {
  Json config = Json::parse(to_json(spec))["model"];
  config.erase("weights");  // those of the checkpoint are others
  config["model_type"] = own_family().model_type;
  return config;
}

}  // namespace

std::optional<Node> read_hf_config(const std::string& path, const diag::Location& wanted_by,
                                   const Node& written, diag::Diagnostics& diagnostics) {
  const std::optional<Node> config = read_map(path, wanted_by, diagnostics);
  if (!config) return std::nullopt;
  const size_t errors = diagnostics.errors();
  const std::optional<Node> text = text_part(*config, diagnostics);
  HfKeys keys(text ? *text : *config, written, diagnostics);
  Node model = read_model(keys);
  if (diagnostics.errors() != errors) return std::nullopt;
  return model;
}

std::string config_json(const Spec& spec) {
  const Family& family = family_of(spec);
  Json config = &family == &own_family() ? own_keys(spec) : Json::object();
  for (const FamilyRow& row : family.rows) {
    const std::string value = row.write != nullptr ? row.write(spec, row) : "";
    if (!value.empty()) config[std::string(row.theirs)] = Json::parse(value);
  }
  return config.dump(2) + "\n";
}

}  // namespace hydrac::spec
