#include "specialize/lift/lift_guard.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

namespace hydrac::specialize {

namespace {

constexpr size_t kLongestStatement = 2000;
constexpr int kMostNestingWords = 500;

// C++ text without comments, strings and characters: they become spaces.
std::string code_of(const std::string& text) {
  std::string code = text;
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < std::min(to, code.size()); ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
    return to;
  };
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (rest.starts_with("//")) {
      at = blank(at, std::min(text.find('\n', at), text.size()));
    } else if (rest.starts_with("/*")) {
      const size_t end = text.find("*/", at + 2);
      at = blank(at, end == std::string::npos ? text.size() : end + 2);
    } else if (text[at] == '"' ||
               (text[at] == '\'' && (at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]))))) {
      size_t end = at + 1;
      while (end < text.size() && text[end] != text[at] && text[end] != '\n')
        end += text[end] == '\\' ? 2 : 1;
      at = blank(at + 1, end) + 1;
    } else {
      ++at;
    }
  }
  return code;
}

FunctionProblem problem_at(const std::string& text, size_t at, std::string message, std::string suggestion) {
  const auto line = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
  const size_t start = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const size_t column = start == std::string::npos ? at + 1 : at - start;
  return {static_cast<int>(line) + 1, static_cast<int>(column), std::move(message), std::move(suggestion)};
}

bool is_harmless_macro(const std::string& definition) {
  std::istringstream words(definition);
  std::string word;
  words >> word;  // its name
  if (word.find('(') != std::string::npos) return false;
  while (words >> word) {
    if (word != "inline" && word != "static" && word != "constexpr" && !word.starts_with("__")) return false;
    if (word.find('(') != std::string::npos) return false;
  }
  return true;
}

// A line that begins with #.
std::optional<FunctionProblem> refused_directive(const std::string& text, size_t at,
                                                 const std::string& line) {
  const size_t word = line.find_first_not_of(" \t", line.starts_with("%:") ? 2 : 1);
  if (word == std::string::npos) return std::nullopt;
  const std::string directive = line.substr(word);
  if (directive.starts_with("define") && !is_harmless_macro(directive.substr(6)))
    return problem_at(text, at, "a macro with a body cannot be in a function's file",
                      "write a constexpr variable or a function");
  if ((directive.starts_with("include") || directive.starts_with("import")) &&
      directive.find('<') == std::string::npos)
    return problem_at(text, at, "a function's file cannot include other files",
                      "it can include <cmath> and <algorithm>; put what it needs into this file");
  return std::nullopt;
}

std::optional<FunctionProblem> refused_directives(const std::string& text, const std::string& code) {
  for (size_t start = 0; start < code.size();) {
    const size_t end = std::min(code.find('\n', start), code.size());
    const size_t at = code.find_first_not_of(" \t\r\f\v", start);
    if (at < end && (code[at] == '#' || code.compare(at, 2, "%:") == 0)) {
      if (auto problem = refused_directive(text, at, code.substr(at, end - at))) return problem;
    }
    start = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::optional<FunctionProblem> refused_text(const std::string& text) {
  for (const char* end : {"\\\n", "\\\r\n"}) {
    if (const size_t at = text.find(end); at != std::string::npos)
      return problem_at(text, at, "a line that goes on in the next one cannot be in a function's file",
                        "join the two");
  }
  if (const size_t at = text.find("R\""); at != std::string::npos)
    return problem_at(text, at, "a raw string cannot be in a function's file", "");
  const std::string code = code_of(text);
  if (auto problem = refused_directives(text, code)) return problem;
  int nesting_words = 0;
  size_t length = 0;
  for (size_t at = 0; at < code.size(); ++at) {
    const bool ends = code[at] == ';' || code[at] == '{' || code[at] == '}';
    length = ends ? 0 : length + (std::isspace(static_cast<unsigned char>(code[at])) ? 0 : 1);
    if (length > kLongestStatement)
      return problem_at(text, at, "this statement is too long for an expression",
                        "name parts of it as variables");
    nesting_words += code.compare(at, 4, "else") == 0 || code.compare(at, 3, "for") == 0;
    if (nesting_words > kMostNestingWords)
      return problem_at(text, at, "this file is too long for a function and what it calls", "");
  }
  return std::nullopt;
}

}  // namespace hydrac::specialize
