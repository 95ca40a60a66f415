// Values by names, {NAME: VALUE, NAME: {NAME: VALUE}}.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "diag/render.h"
#include "diag/suggest.h"
#include "runtime/data/corpus.h"
#include "spec/reader/convert.h"
#include "spec/reader/scalar.h"

namespace hydrac::spec {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Node& node) {
  if (node.kind == Node::Kind::list) {
    Json list = Json::array();
    for (const Node& item : node.items) list.push_back(json_of(item));
    return list;
  }
  if (node.kind == Node::Kind::map) {
    Json map = Json::object();
    for (const Entry& entry : node.entries) map[entry.key] = json_of(entry.value);
    return map;
  }
  const Scalar value = scalar_value(node);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return node.kind == Node::Kind::null || std::holds_alternative<Null>(value) ? Json() : Json(node.text);
}

// data.fields gives the fields that it knows names.
bool is_good_field(const Entry& entry, const KeyRow& key, diag::Diagnostics& diagnostics) {
  const std::vector<std::string> known(std::begin(runtime::kRecordFields), std::end(runtime::kRecordFields));
  if (std::ranges::find(known, entry.key) == known.end()) {
    const std::string meant = diag::nearest(entry.key, known);
    diagnostics.report(diag::Kind::unknown_key, entry.where,
                       fmt::format("there is no field {} in {}", diag::printable(entry.key, 80), key.path),
                       meant.empty() ? fmt::format("it has {}", fmt::join(known, ", "))
                                     : fmt::format("did you mean {}?", meant));
    return false;
  }
  KeyRow field = key;
  field.path = fmt::format("{}.{}", key.path, entry.key);
  field.rule = not_empty();
  std::string name;
  return convert(entry.value, field, name, diagnostics);
}

}  // namespace

bool convert(const Node& node, const KeyRow& key, NamedValues& out, diag::Diagnostics& diagnostics) {
  if (node.kind != Node::Kind::map) {
    diagnostics.report(
        diag::Kind::wrong_type, node.where,
        fmt::format("{} takes a map of names, not {}", key.path, describe(node)),
        fmt::format("write {{{}}}", key.name == "fields" ? "prompt: question" : "enable_thinking: false"));
    return false;
  }
  NamedValues values;
  bool good = true;
  for (const Entry& entry : node.entries) {
    if (entry.key.starts_with("x-")) continue;
    if (key.name == "fields") good &= is_good_field(entry, key, diagnostics);
    values.push_back({entry.key, json_of(entry.value).dump()});
  }
  if (good) out = std::move(values);
  return good;
}

}  // namespace hydrac::spec
