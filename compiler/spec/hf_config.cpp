#include "spec/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "diag/render.h"
#include "spec/family.h"
#include "spec/hf_keys.h"
#include "spec/hugging_face.h"
#include "spec/print.h"
#include "spec/source.h"

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

Node read_model(HfKeys& keys) {
  const Entry* type = keys.take("model_type");
  if (const Family* family = type == nullptr ? nullptr : find_family(type->value.text)) {
    for (const FamilyRow& row : family->rows)
      if (row.read != nullptr) row.read(keys, row);
    keys.report_unknown();
    return keys.take_model();
  }
  keys.unsupported(keys.where(),
                   type != nullptr
                       ? fmt::format("models of type {} are not supported", diag::printable(type->value.text))
                       : "this config.json has no model_type",
                   known_types());
  return keys.take_model();
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
  HfKeys keys(*config, written, diagnostics);
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
