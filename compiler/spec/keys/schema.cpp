#include "spec/keys/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "runtime/data/corpus.h"
#include "spec/keys/key_table.h"
#include "spec/reader/convert.h"
#include "targets/target.h"

namespace hydrac::spec {
namespace {

using Json = nlohmann::ordered_json;

void add_range(Json& type, const Rule& rule) {
  if (!rule.bounded()) return;
  const auto bound = [&](double value) {
    return type["type"] == "integer" ? Json(static_cast<int64_t>(value)) : Json(value);
  };
  type[rule.low_open ? "exclusiveMinimum" : "minimum"] = bound(rule.low);
  type[rule.high_open ? "exclusiveMaximum" : "maximum"] = bound(rule.high);
}

Json number_type(const char* name, const Rule& rule) {
  Json type = {{"type", name}};
  add_range(type, rule);
  return type;
}

Json text_type(const Rule& rule) {
  Json type = {{"type", "string"}};
  if (rule.text == Rule::Text::not_empty) type["minLength"] = 1;
  if (rule.text == Rule::Text::identifier) type["pattern"] = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$";
  return type;
}

Json list_type(Json items, size_t least) {
  Json type = {{"type", "array"}, {"items", std::move(items)}};
  if (least > 0) type["minItems"] = least;
  return type;
}

constexpr std::array<EnumValue, 1> kNone = {{{"none", ""}}};

Json words_type(std::span<const EnumValue> values) {
  return {{"enum", spellings(values)}};
}

Json function_type() {
  const Json named = text_type(not_empty());
  Json type = {{"type", "object"},
               {"additionalProperties", false},
               {"patternProperties", {{"^x-", Json::object()}}},
               {"properties", {{"cpp", named}, {"function", named}, {"text", named}}}};
  type["properties"]["cpp"]["description"] = "A C++ file, relative to this one.";
  type["properties"]["function"]["pattern"] = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";
  type["properties"]["function"]["description"] = "A function in it.";
  type["properties"]["text"]["description"] =
      "The file's text, as resolved specs carry it: then it is not read.";
  return type;
}

Json target_type() {
  Json names = {"auto", "cuda"};
  for (const targets::Target& target : targets::all()) names.push_back(target.name);
  return {{"enum", names}};
}

Json cores_type(const Rule& rule) {
  const Json core = number_type("integer", rule),
             several = {{"type", "string"}, {"pattern", "^[0-9]+-[0-9]+$"}};
  const Json item = {{"anyOf", {core, several}}};
  return {{"anyOf", {words_type(kNone), core, several, list_type(item, 1)}}};
}

Json recompute_type() {
  return {{"anyOf",
           {{{"enum", {"none", "block", "auto"}}},
            list_type({{"enum", {"norm", "act", "attn", "mlp", "qk_norm"}}}, 1)}}};
}

Json described(Json type, const char* description) {
  type["description"] = description;
  return type;
}

Json sources_type(bool weighted) {
  const Json any = Json::object(), text = text_type(not_empty()),
             paths = {{"anyOf", {text, list_type(text, 1)}}};
  Json source = {{"type", "object"},
                 {"additionalProperties", false},
                 {"patternProperties", {{"^x-", any}}},
                 {"properties", {{"path", described(paths, "Files or globs, as data.path.")}}},
                 {"required", {"path"}}};
  if (weighted) {
    source["properties"]["weight"] = described(number_type("number", range_above(0, 1e6)),
                                               "Its part of all weights; 1 where it is not said.");
    source["properties"]["epochs"] =
        described(number_type("number", range(0, 1e6)), "Passes over it at most; 0 = any number.");
  }
  const Json named = {{"anyOf", {text, list_type(text, 1), source}}};
  return {{"type", "object"},
          {"additionalProperties", false},
          {"minProperties", 1},
          {"patternProperties", {{"^x-", any}, {"^(?!x-)[A-Za-z0-9_-]{1,64}$", named}}},
          {"properties", any}};
}

Json values_type(bool fields) {
  const Json any = Json::object();
  const std::string names =
      fields ? fmt::format("^({})$", fmt::join(runtime::kRecordFields, "|")) : "^(?!x-)";
  return {{"type", "object"},
          {"additionalProperties", false},
          {"patternProperties", {{"^x-", any}, {names, fields ? text_type(not_empty()) : any}}},
          {"properties", any}};
}

template <class T>
Json type_of(const KeyRow& row) {
  if constexpr (std::is_same_v<T, bool>) return {{"type", "boolean"}};
  if constexpr (std::is_same_v<T, int64_t>) return number_type("integer", row.rule);
  if constexpr (std::is_same_v<T, BatchSize>)
    return {{"anyOf", {{{"enum", {"auto"}}}, number_type("integer", row.rule)}}};
  if constexpr (std::is_same_v<T, double>) return number_type("number", row.rule);
  if constexpr (std::is_same_v<T, LearningRate>)
    return {{"anyOf", {{{"enum", {"auto"}}}, number_type("number", row.rule)}}};
  if constexpr (std::is_same_v<T, Share>)
    return {{"anyOf", {{{"type", "boolean"}}, number_type("number", row.rule)}}};
  if constexpr (std::is_same_v<T, std::string>)
    return row.path == "target" ? target_type() : text_type(row.rule);
  if constexpr (std::is_same_v<T, StringList>) {
    const size_t least = row.rule.text == Rule::Text::not_empty ? 1 : 0;
    return {{"anyOf", {text_type(row.rule), list_type(text_type(row.rule), least)}}};
  }
  if constexpr (std::is_same_v<T, Betas>) {
    Json type = list_type(number_type("number", row.rule), 2);
    type["maxItems"] = 2;
    return type;
  }
  if constexpr (std::is_same_v<T, Numbers>) return list_type(number_type("number", row.rule), 0);
  if constexpr (std::is_same_v<T, CoreList>) return cores_type(row.rule);
  if constexpr (std::is_same_v<T, Sources>) return sources_type(row.name == "mix");
  if constexpr (std::is_same_v<T, NamedValues>) return values_type(row.name == "fields");
  if constexpr (std::is_same_v<T, Recompute>) return recompute_type();
  if constexpr (std::is_enum_v<T>) return words_type(enum_values(T{}));
  if constexpr (is_word_or_function<T>)
    return {{"anyOf", {words_type(enum_values(typename T::Word{})), function_type()}}};
}

template <class T>
Json default_of(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return to_string(value);
  else if constexpr (is_word_or_function<T>)
    return to_string(value.word);
  else if constexpr (std::is_same_v<T, Recompute> || std::is_same_v<T, CoreList>)
    return "none";
  else if constexpr (std::is_same_v<T, Sources> || std::is_same_v<T, NamedValues>)
    return Json::object();
  else if constexpr (std::is_same_v<T, BatchSize>)
    return "auto";
  else if constexpr (std::is_same_v<T, LearningRate>)
    return value.value;
  else if constexpr (std::is_same_v<T, Share>)
    return value.any();
  else
    return value;
}

template <class T>
Json key_schema(const KeyRow& row, const T& fallback) {
  Json schema = type_of<T>(row);
  std::string description(row.doc);
  if (row.required)
    description += " Required.";
  else if (!row.derived.empty())
    description += " Default: " + std::string(row.derived) + ".";
  else
    schema["default"] = default_of(fallback);
  schema["description"] = description;
  return schema;
}

Json map_schema() {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"patternProperties", {{"^x-", Json::object()}}},
          {"properties", Json::object()}};
}

}  // namespace

std::string json_schema() {
  Json root = {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"title", "hydrac spec"},
      {"description", "What to train, on what, and how. Generated by `hydrac schema` from keys.def."}};
  root.update(map_schema());
  const auto section_at = [&](const std::string& path) -> Json& {
    Json* map = &root;
    for (size_t start = 0; start < path.size();) {
      const size_t dot = std::min(path.find('.', start), path.size());
      Json& properties = (*map)["properties"];
      const std::string name = path.substr(start, dot - start);
      if (!properties.contains(name)) {
        properties[name] = map_schema();
        properties[name]["description"] = find_section(path.substr(0, dot))->doc;
      }
      map = &properties[name];
      start = dot + 1;
    }
    return *map;
  };
  const SpecKeys defaults;
  visit_keys(defaults, [&](const KeyRow& row, const auto& field) {
    section_at(row.section)["properties"][row.name] = key_schema(row, field);
  });
  return root.dump(2) + "\n";
}

}  // namespace hydrac::spec
