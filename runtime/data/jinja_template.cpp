#include "runtime/data/jinja_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/base/quote.h"
#include "runtime/data/mapped_file.h"
#include "runtime/data/text_bytes.h"
#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kFile = "chat_template.jinja", *kConfig = "tokenizer_config.json",
                     *kTokens = "special_tokens_map.json", *kKey = "chat_template";

std::map<std::string, JinjaTemplate> templates_in(const json& config, const std::string& file) {
  std::map<std::string, JinjaTemplate> all;
  const auto field = config.find(kKey);
  if (field == config.end()) return all;
  const auto add = [&](const std::string& name, const json& source, const std::string& shown_as) {
    if (source.is_string()) all[name] = {shown_as, source.get<std::string>()};
  };
  add("default", *field, fmt::format("{}: {}", file, kKey));
  if (!field->is_array()) return all;
  for (const json& entry : *field) {
    const json name = entry.is_object() ? entry.value("name", json()) : json();
    if (name.is_string())
      add(name, entry.value("template", json()),
          fmt::format("{}: {} {}", file, kKey, name.get<std::string>()));
  }
  return all;
}

// Texts of the tokens that a template names.
std::map<std::string, std::string> tokens_in(const json& config) {
  std::map<std::string, std::string> tokens;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const json token = config.value(name, json());
    const json& text = token.is_object() && token.contains("content") ? token["content"] : token;
    if (text.is_string()) tokens[name] = text.get<std::string>();
  }
  return tokens;
}

std::string text_of(const fs::path& path) {
  const std::string name = path.generic_string();
  std::string text(MappedFile::open(path, name)->bytes());
  require_text(text, name, "UTF-8 text");
  return text;
}

}  // namespace

std::optional<JinjaTemplate> find_jinja_template(const std::string& tokenizer, const std::string& name) {
  const bool is_file = name.ends_with(".jinja");
  std::map<std::string, std::string> files;
  if (tokenizer != "byte" && tokenizer != "char") files = files_beside(tokenizer, {kFile, kConfig, kTokens});
  const std::string folder = fs::path(tokenizer).parent_path().generic_string();
  const auto shown = [&](const char* file) { return folder.empty() ? file : folder + "/" + file; };
  const auto parsed = [&](const char* file) {
    const auto text = files.find(file);
    const json value = text == files.end() ? json::object() : parse_json(text->second, shown(file));
    return value.is_object() ? value : json::object();
  };
  const json config = parsed(kConfig);
  std::map<std::string, JinjaTemplate> all = templates_in(config, shown(kConfig));
  if (const auto own = files.find(kFile); own != files.end()) all["default"] = {shown(kFile), own->second};
  if (is_file) all[name] = {fs::path(name).generic_string(), text_of(name)};
  const auto found = all.find(name.empty() ? "default" : name);
  if (found == all.end()) {
    if (name.empty() && all.empty()) return std::nullopt;
    std::vector<std::string> names;
    for (const auto& [other, ignored] : all) names.push_back(other);
    throw InputError(fmt::format(
        "data.chat_template_jinja: the folder of {} has {}{}", tokenizer,
        names.empty() ? "no chat template" : fmt::format("chat templates called {}", fmt::join(names, ", ")),
        name.empty() ? ": name one of them"
                     : fmt::format(", none called {}; a file's name ends in .jinja", in_quotes(name))));
  }
  JinjaTemplate chosen = found->second;
  if (const auto tools = all.find("tool_use"); name.empty() && tools != all.end())
    chosen.with_tools = tools->second.source;
  chosen.tokens = tokens_in(config);
  chosen.tokens.merge(tokens_in(parsed(kTokens)));
  return chosen;
}

}  // namespace hydrac::runtime
