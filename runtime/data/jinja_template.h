// The chat template that comes with a model: Jinja, a program by which its conversations become text.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace hydrac::runtime {

struct JinjaTemplate {
  std::string shown_as;  // "model/chat_template.jinja", in messages
  std::string source;
  std::string with_tools = {};  // the one called tool_use, for records with tools; or empty
  std::map<std::string, std::string> tokens = {};  // by the names that templates know: bos_token, eos_token
};

// The template of the folder in which `tokenizer`, the path of a tokenizer.json, lies: chat_template.jinja,
// else chat_template of tokenizer_config.json, a text or a list of named ones. `name`: one of these, or a
// file that ends in .jinja; empty: the one called default. Nothing if there is none and none is named.
// InputError for a name that is not there, and for a file that cannot be read.
std::optional<JinjaTemplate> find_jinja_template(const std::string& tokenizer, const std::string& name = "");

}  // namespace hydrac::runtime
