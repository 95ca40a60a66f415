#include "spec/chat_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "runtime/data/hash.h"

namespace hydrac::spec {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Names = std::map<std::string, std::string>;

// Templates that write as hydrac's formats do, in the spellings of many models.
struct KnownTemplate {
  ChatFormat format;
  std::string jinja;
};

const std::vector<KnownTemplate>& known_templates() {
  const std::string turn =
      "{{'<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n'}}";
  const std::string qwens =
      "{{'<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\\n'}}";
  const std::string header =
      "'<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + "
      "'<|eot_id|>'";
  const std::string each = "{% for message in messages %}", end = "{% endfor %}";
  static const std::vector<KnownTemplate> known = {
      {ChatFormat::chatml, each + turn + end},
      {ChatFormat::qwen,
       "{% if messages[0].role == 'system' %}{{'<|im_start|>system\\n' + messages[0].content + "
       "'<|im_end|>\\n'}}"
       "{% else %}" +
           qwens + "{% endif %}" + each +
           "{% if (message.role == 'user') or (message.role == 'system' and not loop.first) or "
           "(message.role == 'assistant' and not message.tool_calls) %}" +
           turn + "{% endif %}" + end},
      {ChatFormat::qwen,
       each + "{% if loop.first and messages[0].role != 'system' %}" + qwens + "{% endif %}" + turn + end},
      {ChatFormat::llama3,
       "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = " + header +
           " %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{content}}" + end},
      {ChatFormat::llama3, "{{bos_token}}" + each + "{{" + header + "}}" + end},
      {ChatFormat::mistral,
       "{{bos_token}}" + each +
           "{% if message.role == 'user' %}{{'[INST]' + message.content + '[/INST]'}}"
           "{% elif message.role == 'assistant' %}{{message.content + eos_token}}{% endif %}" +
           end},
  };
  return known;
}

uint64_t hash_of(const std::vector<JinjaPart>& form) {
  runtime::Hash64 hash;
  for (const JinjaPart& part : form) hash.add(static_cast<uint64_t>(part.kind)).add(part.text);
  return hash.value();
}

// The same of long templates, mostly about tools: hash_of() their form.
struct LongTemplate {
  ChatFormat format;
  uint64_t hash;
};
constexpr LongTemplate kLongTemplates[] = {
    {ChatFormat::qwen, 0x60c55927b2cc6b89},    // Qwen2.5-Instruct
    {ChatFormat::chatml, 0xc2aa56649956f4de},  // Qwen3-Instruct-2507
};

// How a format writes.
struct FormatText {
  ChatFormat format;
  std::string_view all;                   // a conversation, with ... for what is said
  std::vector<std::string_view> markers;  // which its templates write, and no other's but chatml's
  Names names;
  bool trims = false;  // white space around what is said
};

const FormatText& text_of(ChatFormat format) {
  static const FormatText kTexts[] = {
      {ChatFormat::qwen,
       "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
       "<|im_start|>user\n...<|im_end|>\n<|im_start|>assistant\n...<|im_end|>\n<|im_start|>system\n...",
       {"<|im_start|>", "<|im_end|>", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
       {}},
      {ChatFormat::chatml,
       "<|im_start|>system\n...<|im_end|>\n<|im_start|>user\n...<|im_end|>\n<|im_start|>assistant\n...<|im_"
       "end|>\n",
       {"<|im_start|>", "<|im_end|>"},
       {}},
      {ChatFormat::llama3,
       "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n...<|eot_id|><|start_header_id|>user"
       "<|end_header_id|>\n\n...<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n...<|eot_id|>",
       {"<|start_header_id|>", "<|eot_id|>"},
       {{"bos_token", "<|begin_of_text|>"}},
       true},
      {ChatFormat::mistral,
       "<s>[INST]...[/INST]...</s>[INST]...",
       {"[INST]", "[/INST]"},
       {{"bos_token", "<s>"}, {"eos_token", "</s>"}}},
  };
  return *std::ranges::find(kTexts, format, &FormatText::format);
}

std::optional<std::string> contents(const fs::path& path) {
  std::error_code error;
  std::ifstream file;
  if (fs::is_regular_file(path, error)) file.open(path, std::ios::binary);
  if (!file.is_open()) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The template called default, if there is a list of them.
std::optional<std::string> template_in(const json& config) {
  const json& field = config.contains("chat_template") ? config["chat_template"] : json();
  if (field.is_string()) return field.get<std::string>();
  if (!field.is_array()) return std::nullopt;
  for (const json& entry : field) {
    if (entry.is_object() && entry.value("name", json()) == "default" &&
        entry.value("template", json()).is_string())
      return entry["template"].get<std::string>();
  }
  return std::nullopt;
}

Names names_in(const json& config) {
  Names names;
  for (const char* key : {"bos_token", "eos_token"}) {
    const json& token = config.contains(key) ? config[key] : json();
    const json& text = token.is_object() && token.contains("content") ? token["content"] : token;
    if (text.is_string()) names[key] = text.get<std::string>();
  }
  return names;
}

// True if a branch or loop is entered for tools or their calls alone.
bool is_for_tools(const std::string& statement) {
  if (statement.find("tool") == std::string::npos) return false;
  const auto says = [&](const char* words) { return statement.find(words) != std::string::npos; };
  return !says("not ") || says("tools is not none") || says("not tools is none");
}

// Texts that a template may write by itself, without those that only tools bring about.
std::vector<std::string> texts_in(const std::vector<JinjaPart>& form) {
  std::vector<std::string> texts;
  std::vector<bool> is_left_out;  // of each block that is open
  for (const JinjaPart& part : form) {
    const std::string& text = part.text;
    const bool is_statement = part.kind == JinjaPart::Kind::statement;
    if (is_statement && (text.starts_with("if ") || text.starts_with("for "))) {
      is_left_out.push_back(is_for_tools(text));
    } else if (is_statement && (text.starts_with("elif ") || text == "else")) {
      if (!is_left_out.empty()) is_left_out.back() = is_for_tools(text);
    } else if (is_statement && (text == "endif" || text == "endfor")) {
      if (!is_left_out.empty()) is_left_out.pop_back();
    } else if (std::ranges::find(is_left_out, true) != is_left_out.end()) {
      continue;
    } else if (part.kind == JinjaPart::Kind::text) {
      texts.push_back(text);
    } else if (!is_statement || text.starts_with("set ")) {
      for (std::string& quoted : quoted_texts(text)) texts.push_back(std::move(quoted));
    }
  }
  return texts;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 80;
  const std::string shown = json(text.substr(0, kMost)).dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= kMost ? shown : shown + "...";
}

}  // namespace

OwnChatTemplate::OwnChatTemplate(std::string file, std::vector<JinjaPart> form)
    : file_(std::move(file)), form_(std::move(form)), texts_(texts_in(form_)) {}

std::optional<OwnChatTemplate> OwnChatTemplate::beside(const std::string& tokenizer) {
  if (tokenizer == "byte" || tokenizer == "char") return std::nullopt;
  const fs::path folder = fs::path(tokenizer).parent_path();
  const fs::path config_file = folder / "tokenizer_config.json", own_file = folder / "chat_template.jinja";
  json config = json::parse(contents(config_file).value_or("{}"), nullptr, false);
  if (!config.is_object()) config = json::object();
  std::optional<std::string> text = contents(own_file);
  const fs::path& file = text ? own_file : config_file;
  if (!text) text = template_in(config);
  if (!text) return std::nullopt;
  return OwnChatTemplate(file.generic_string(), jinja_form(*text, names_in(config)));
}

ChatFormat OwnChatTemplate::same() const {
  for (const KnownTemplate& known : known_templates()) {
    if (jinja_form(known.jinja, text_of(known.format).names) == form_) return known.format;
  }
  const auto known = std::ranges::find(kLongTemplates, hash_of(form_), &LongTemplate::hash);
  return known == std::end(kLongTemplates) ? ChatFormat::none : known->format;
}

ChatFormat OwnChatTemplate::nearest() const {
  if (const ChatFormat known = same(); known != ChatFormat::none) return known;
  for (const ChatFormat format :
       {ChatFormat::qwen, ChatFormat::chatml, ChatFormat::llama3, ChatFormat::mistral}) {
    if (std::ranges::all_of(text_of(format).markers, [&](std::string_view m) { return writes(m); }))
      return format;
  }
  return ChatFormat::none;
}

bool OwnChatTemplate::writes(std::string_view marker) const {
  return std::ranges::any_of(texts_, [&](const std::string& text) { return text.find(marker) != text.npos; });
}

std::string OwnChatTemplate::difference_from(ChatFormat format) const {
  const FormatText& of = text_of(format);
  constexpr size_t kMost = 3;
  std::vector<std::string> others, missing, found;
  for (const std::string& text : texts_) {
    if (of.all.find(text) != std::string_view::npos) continue;
    if (const std::string other = in_quotes(text); std::ranges::find(others, other) == others.end())
      others.push_back(other);
  }
  for (const std::string_view marker : of.markers) {
    if (!writes(marker)) missing.push_back(in_quotes(marker));
  }
  const bool trims = std::ranges::any_of(form_, [](const JinjaPart& part) {
    return part.kind != JinjaPart::Kind::text &&
           (part.text.find("| trim") != std::string::npos || part.text.find("strip (") != std::string::npos);
  });
  const bool is_more = others.size() > kMost;
  if (is_more) others.resize(kMost);
  if (!others.empty())
    found.push_back(fmt::format("it writes {}{}", fmt::join(others, ", "), is_more ? ", ..." : ""));
  if (!missing.empty()) found.push_back(fmt::format("it never writes {}", fmt::join(missing, ", ")));
  if (trims != of.trims)
    found.push_back(fmt::format("it {} white space around what is said", trims ? "cuts" : "keeps"));
  if (found.empty()) found.emplace_back("it writes the same words in a way that hydrac does not know");
  return fmt::format("{}", fmt::join(found, ", and "));
}

}  // namespace hydrac::spec
