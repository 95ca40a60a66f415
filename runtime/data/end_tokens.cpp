#include "runtime/data/end_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;

constexpr const char* kTokenKey = "eos_token";
constexpr const char* kIdKey = "eos_token_id";

// Names of the token between documents, for folders that declare none.
constexpr std::string_view kCommonNames[] = {"<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>",
                                             "</s>", "<eos>"};

// The tokens of a tokenizer.json, which may not have been checked any further.
class TokenList {
 public:
  explicit TokenList(const json& tokenizer)
      : vocab_(json_field(json_field(tokenizer, "model"), "vocab")),
        added_(json_field(tokenizer, "added_tokens")) {}

  std::optional<int32_t> find_added(std::string_view text) const {
    for (const json& token : added_) {
      if (json_field(token, "content") == text) return id_of(json_field(token, "id"));
    }
    return std::nullopt;
  }
  bool is_added(int32_t id) const {
    return std::ranges::any_of(added_, [&](const json& token) { return json_field(token, "id") == id; });
  }
  std::optional<int32_t> find(const std::string& text) const {
    const auto added = find_added(text);
    return added ? added : id_of(json_field(vocab_, text.c_str()));
  }
  // Nothing for an id that no token has.
  std::optional<std::string> text(int64_t id) const {
    for (const json& token : added_) {
      const json& content = json_field(token, "content");
      if (json_field(token, "id") == id && content.is_string()) return content.get<std::string>();
    }
    for (const auto& [text, of] : vocab_.items()) {
      if (of == id) return text;
    }
    return std::nullopt;
  }

 private:
  static std::optional<int32_t> id_of(const json& id) {
    return id.is_number_integer() ? std::optional(id.get<int32_t>()) : std::nullopt;
  }

  const json& vocab_;
  const json& added_;
};

std::string shown(const EndDeclarations& declared, const std::string& name) {
  return (std::filesystem::path(declared.folder) / name).string();
}

json parsed_object(const std::string& text, const std::string& shown_as) {
  json root = parse_json(text, shown_as);
  if (!root.is_object()) throw InputError(fmt::format("{}: it is not a JSON object", shown_as));
  return root;
}

// A file that a folder need not have; null then.
json parsed(const EndDeclarations& declared, const std::string& name) {
  const auto file = declared.files.find(name);
  return file == declared.files.end() ? nullptr : parsed_object(file->second, shown(declared, name));
}

// A string, or an object with it as "content"; empty where nothing is declared.
std::string declared_token(const EndDeclarations& declared, const std::string& name) {
  const json root = parsed(declared, name);
  const json& token = json_field(root, kTokenKey);
  if (token.is_null()) return "";
  const json& text = token.is_object() ? json_field(token, "content") : token;
  if (text.is_string()) return text.get<std::string>();
  throw InputError(fmt::format("{}: \"{}\" is neither a token nor an object with one as \"content\"",
                               shown(declared, name), kTokenKey));
}

std::vector<int64_t> ids_in(const json& config, const std::string& shown_as) {
  const json& field = json_field(config, kIdKey);
  if (field.is_null()) return {};
  const json list = field.is_array() ? field : json::array({field});
  std::vector<int64_t> ids;
  for (const json& id : list) {
    if (!id.is_number_integer())
      throw InputError(
          fmt::format("{}: \"{}\" is neither a whole number nor a list of them", shown_as, kIdKey));
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

// Those that are tokens.
std::vector<int32_t> declared_ids(const EndDeclarations& declared, const std::string& name,
                                  const TokenList& tokens) {
  std::vector<int32_t> known;
  for (const int64_t id : ids_in(parsed(declared, name), shown(declared, name))) {
    if (tokens.text(id)) known.push_back(static_cast<int32_t>(id));
  }
  return known;
}

std::optional<int32_t> declared_document_end(const EndDeclarations& declared, const TokenList& tokens) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::string token = declared_token(declared, name);
    if (token.empty()) continue;
    if (const auto id = tokens.find(token)) return id;
    throw InputError(fmt::format("{}: the {} {} is no token of the tokenizer.json beside it",
                                 shown(declared, name), kTokenKey, json(token).dump()));
  }
  return std::nullopt;
}

}  // namespace

bool EndTokens::contains(int32_t id) const {
  return std::ranges::find(all, id) != all.end();
}

void EndTokens::add(int32_t id) {
  if (!contains(id)) all.push_back(id);
}

EndDeclarations end_declarations(const std::string& path, const std::string& turn_end) {
  return {std::filesystem::path(path).parent_path().string(),
          files_beside(path, {"tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
                              "config.json"}),
          turn_end};
}

EndTokens end_tokens_of(const json& tokenizer, const EndDeclarations& declared) {
  const TokenList tokens(tokenizer);
  EndTokens ends;
  ends.document = declared_document_end(declared, tokens);
  if (ends.document) ends.add(*ends.document);
  for (const char* name : {"generation_config.json", "config.json"}) {
    for (const int32_t id : declared_ids(declared, name, tokens)) ends.add(id);
  }
  for (const int32_t id : ends.all) {
    if (!ends.document && tokens.is_added(id)) ends.document = id;
  }
  for (const std::string_view name : kCommonNames) {
    if (!ends.document) ends.document = tokens.find_added(name);
  }
  if (ends.document) {
    ends.add(*ends.document);
    ends.document_text = *tokens.text(*ends.document);
  }
  if (const auto id = tokens.find(declared.turn_end)) ends.add(*id);
  return ends;
}

std::string generation_config(const std::string& text, const EndTokens& ends, const std::string& shown_as) {
  using Json = nlohmann::ordered_json;
  std::vector<int64_t> ids;
  if (!text.empty()) ids = ids_in(parsed_object(text, shown_as), shown_as);
  const auto is_declared = [&](int32_t id) { return std::ranges::find(ids, id) != ids.end(); };
  if (!text.empty() && std::ranges::all_of(ends.all, is_declared)) return text;
  Json config = text.empty() ? Json::object() : Json::parse(text);
  for (const int32_t id : ends.all) {
    if (!is_declared(id)) ids.push_back(id);
  }
  config[kIdKey] = ids.empty() ? Json(nullptr) : ids.size() == 1 ? Json(ids[0]) : Json(ids);
  return config.dump(2) + "\n";
}

}  // namespace hydrac::runtime
