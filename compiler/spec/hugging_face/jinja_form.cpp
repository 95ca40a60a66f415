#include "spec/hugging_face/jinja_form.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <span>

namespace hydrac::spec {

namespace {

using PartKind = JinjaPart::Kind;
using Tokens = std::vector<std::string>;  // a text in quotes begins with " and has no end quote

constexpr std::string_view kSpace = " \t\n\r";

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_text(const std::string& token) {
  return token.starts_with('"');
}

void trim_end(std::string& text) {
  text.erase(text.find_last_not_of(kSpace) + 1);
}

// The tokens of an expression or statement.
Tokens tokens_of(std::string_view code) {
  Tokens tokens;
  for (size_t at = 0; at < code.size();) {
    const char c = code[at];
    if (kSpace.find(c) != std::string_view::npos) {
      ++at;
    } else if (c == '\'' || c == '"') {
      std::string text = "\"";
      for (++at; at < code.size() && code[at] != c; ++at) {
        if (code[at] != '\\' || at + 1 == code.size()) {
          text += code[at];
          continue;
        }
        const char escaped = code[++at];
        text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped;
      }
      ++at;
      tokens.push_back(text);
    } else if (is_word(c)) {
      const auto end = std::ranges::find_if_not(code.substr(at), is_word) - code.begin();
      tokens.emplace_back(code.substr(at, static_cast<size_t>(end) - at));
      at = static_cast<size_t>(end);
    } else {
      const bool is_pair = at + 1 < code.size() && code[at + 1] == '=' && (c == '=' || c == '!');
      tokens.emplace_back(code.substr(at, is_pair ? 2 : 1));
      at += is_pair ? 2 : 1;
    }
  }
  return tokens;
}

// x['name'] as x.name, names that stand for text as that text, and texts joined by + as one.
Tokens simplified(const Tokens& tokens, const std::map<std::string, std::string>& names) {
  Tokens simple;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_item =
        tokens[i] == "[" && i + 2 < tokens.size() && is_text(tokens[i + 1]) && tokens[i + 2] == "]" && i > 0;
    if (is_item) {
      simple.insert(simple.end(), {".", tokens[i + 1].substr(1)});
      i += 2;
      continue;
    }
    const auto name = names.find(tokens[i]);
    std::string token = name == names.end() ? tokens[i] : '"' + name->second;
    const size_t size = simple.size();
    const bool joins = is_text(token) && size >= 2 && simple[size - 1] == "+" && is_text(simple[size - 2]);
    if (!joins) {
      simple.push_back(std::move(token));
      continue;
    }
    simple.pop_back();
    simple.back() += token.substr(1);
  }
  return simple;
}

std::string joined(std::span<const std::string> tokens) {
  std::string text;
  for (const std::string& token : tokens) {
    if (!text.empty()) text += ' ';
    text += is_text(token) ? nlohmann::json(token.substr(1)).dump() : token;
  }
  return text;
}

class FormMaker {
 public:
  FormMaker(std::string_view source, const std::map<std::string, std::string>& names)
      : rest_(source), names_(names) {}

  std::vector<JinjaPart> run() {
    if (rest_.ends_with('\n')) rest_.remove_suffix(1);
    while (!rest_.empty()) {
      const size_t open = next_tag();
      std::string text(rest_.substr(0, open));
      rest_.remove_prefix(std::min(open, rest_.size()));
      trim_begin(text);
      if (rest_.empty()) {
        add_text(text);
        break;
      }
      read_tag(std::move(text));
    }
    return std::move(parts_);
  }

 private:
  // Position at which the next tag opens.
  size_t next_tag() const {
    for (size_t at = rest_.find('{'); at != std::string_view::npos; at = rest_.find('{', at + 1)) {
      if (at + 1 < rest_.size() && std::string_view("{%#").find(rest_[at + 1]) != std::string_view::npos)
        return at;
    }
    return std::string_view::npos;
  }

  // Removes from the text behind a tag what the tag swallows.
  void trim_begin(std::string& text) {
    size_t swallowed = 0;
    if (strips_next_)
      swallowed = std::min(text.find_first_not_of(kSpace), text.size());
    else if (trims_line_ && text.starts_with('\n'))
      swallowed = 1;
    begins_line_ |= swallowed > 0 && text[swallowed - 1] == '\n';
    text.erase(0, swallowed);
  }

  // Position at which the tag that stands first in rest_ closes.
  size_t end_of_tag(char kind) const {
    const std::string close = {kind == '{' ? '}' : kind, '}'};
    char quote = 0;
    for (size_t at = 2; at < rest_.size(); ++at) {
      const char c = rest_[at];
      if (quote != 0) {
        if (c == '\\') ++at;
        if (c == quote) quote = 0;
      } else if (kind != '#' && (c == '\'' || c == '"')) {
        quote = c;
      } else if (rest_.substr(at).starts_with(close)) {
        return at;
      }
    }
    return rest_.size();
  }

  // `before`: the text before the tag, of which it may swallow the end.
  void read_tag(std::string before) {
    const char kind = rest_[1];
    const size_t end = end_of_tag(kind);
    std::string_view code = rest_.substr(2, end - 2);
    rest_.remove_prefix(std::min(end + 2, rest_.size()));
    if (code.starts_with('-')) {
      trim_end(before);
    } else if (kind != '{' && !code.starts_with('+')) {
      const size_t line = before.find_last_not_of(" \t");
      if (line == std::string::npos ? begins_line_ : before[line] == '\n') before.erase(line + 1);
    }
    add_text(before);
    begins_line_ = false;
    strips_next_ = code.ends_with('-');
    trims_line_ = kind != '{';
    if (code.starts_with('-') || code.starts_with('+')) code.remove_prefix(1);
    if (code.ends_with('-') || code.ends_with('+')) code.remove_suffix(1);
    if (kind == '{') add_output(tokens_of(code));
    if (kind == '%') add_statement(tokens_of(code));
  }

  void add_text(std::string_view text) {
    if (text.empty()) return;
    if (parts_.empty() || parts_.back().kind != PartKind::text) parts_.push_back({PartKind::text, ""});
    parts_.back().text += text;
  }

  // Its sums, part by part.
  void add_output(const Tokens& tokens) {
    Tokens all = renamed(tokens);
    while (all.size() >= 2 && all.front() == "(" && all.back() == ")" && closes_at_end(all))
      all = Tokens(all.begin() + 1, all.end() - 1);
    const bool is_choice = std::ranges::find(all, "if") != all.end();
    Tokens part;
    int depth = 0;
    const auto finish = [&] {
      if (part.size() == 1 && is_text(part[0]))
        add_text(std::string_view(part[0]).substr(1));
      else if (!part.empty() && part[0] != "raise_exception")
        parts_.push_back({PartKind::output, joined(part)});
      part.clear();
    };
    for (const std::string& token : all) {
      if (token == "(" || token == "[") ++depth;
      if (token == ")" || token == "]") --depth;
      if (depth == 0 && !is_choice && (token == "+" || token == "~"))
        finish();
      else
        part.push_back(token);
    }
    finish();
  }

  static bool closes_at_end(const Tokens& tokens) {
    int depth = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      depth += (tokens[i] == "(") - (tokens[i] == ")");
      if (depth == 0) return false;
    }
    return true;
  }

  void add_statement(const Tokens& tokens) {
    if (tokens.empty() || tokens[0] == "generation" || tokens[0] == "endgeneration") return;
    const bool opens_messages =
        tokens[0] == "for" && tokens.size() == 4 && (tokens[3] == "messages" || tokens[3] == "loop_messages");
    if (opens_messages) message_ = tokens[1];
    if (tokens[0] == "endif" && drop_empty_branch()) return;
    parts_.push_back({PartKind::statement, joined(renamed(tokens))});
    if (tokens[0] == "endif") drop_generation_prompt();
  }

  // For last parts that are branches of an `if` which write nothing, as those that raise an exception. True
  // if nothing is left of the `if`.
  bool drop_empty_branch() {
    const auto last_begins_with = [&](const char* word) {
      return !parts_.empty() && parts_.back().kind == PartKind::statement &&
             parts_.back().text.starts_with(word);
    };
    if (last_begins_with("else")) parts_.pop_back();
    if (!last_begins_with("if ")) return false;
    parts_.pop_back();
    return true;
  }

  // The variable of the loop over messages is called message.
  Tokens renamed(const Tokens& tokens) const {
    Tokens all = simplified(tokens, names_);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == message_ && (i == 0 || all[i - 1] != ".")) all[i] = "message";
    }
    return all;
  }

  // For a last part that ends an `if` about the generation prompt alone, which is false in training.
  void drop_generation_prompt() {
    int depth = 0;
    bool has_else = false;
    for (size_t at = parts_.size(); at-- > 0;) {
      const JinjaPart& part = parts_[at];
      if (part.kind != PartKind::statement) continue;
      depth += (part.text == "endif") - part.text.starts_with("if ");
      has_else |= depth == 1 && (part.text == "else" || part.text.starts_with("elif "));
      if (depth > 0) continue;
      if (!has_else && is_about_generation(at)) parts_.resize(at);
      return;
    }
  }

  // True if the `if` that stands at `at` is about generation alone, the last part being its end.
  bool is_about_generation(size_t at) const {
    const std::string& condition = parts_[at].text;
    if (condition == "if add_generation_prompt") return true;
    const bool defines = condition == "if not add_generation_prompt is defined" ||
                         condition == "if add_generation_prompt is not defined";
    return defines && at + 3 == parts_.size() && parts_[at + 1].text == "set add_generation_prompt = false";
  }

  std::string_view rest_;
  const std::map<std::string, std::string>& names_;
  std::string message_ = "message";
  bool strips_next_ = false, trims_line_ = false;  // what the last tag swallows behind it
  bool begins_line_ = true;                        // the text before the next tag
  std::vector<JinjaPart> parts_;
};

}  // namespace

std::vector<JinjaPart> jinja_form(std::string_view source, const std::map<std::string, std::string>& names) {
  return FormMaker(source, names).run();
}

}  // namespace hydrac::spec
