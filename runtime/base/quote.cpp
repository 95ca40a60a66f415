#include "runtime/base/quote.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "runtime/base/utf8.h"

namespace hydrac::runtime {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr size_t kLongestLine = 4000;

bool is_harmful(char32_t c) {
  const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
  const bool turns_line = c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e);
  return control || turns_line || (c >= 0x2066 && c <= 0x2069);
}

std::string json_escape(char32_t c) {
  constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";  // a character, and its letter
  for (size_t i = 0; i < kShort.size(); i += 2)
    if (c == static_cast<unsigned char>(kShort[i])) return {'\\', kShort[i + 1]};
  return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
}

// Takes the character that `text`, which is not empty, begins with.
std::string_view take(std::string_view& text) {
  const std::string_view character = text.substr(0, std::max<size_t>(1, utf8_length(text)));
  text.remove_prefix(character.size());
  return character;
}

// `escape_too`: characters that are escaped though they are harmless.
std::string escaped_but(std::string_view text, size_t longest, std::string_view escape_too) {
  std::string safe;
  for (size_t count = 0; !text.empty(); ++count) {
    if (count == longest) return safe + "...";
    const std::string_view character = take(text);
    size_t at = 0;
    if (utf8_length(character) == 0)
      safe += "\\ufffd";
    else if (harmless_length(character) == 0 || escape_too.find(character) != std::string_view::npos)
      safe += json_escape(next_code_point(character, at));
    else
      safe += character;
  }
  return safe;
}

}  // namespace

size_t harmless_length(std::string_view text) {
  const size_t length = utf8_length(text);
  size_t at = 0;
  return length == 0 || is_harmful(next_code_point(text, at)) ? 0 : length;
}

std::string in_quotes(std::string_view text, size_t longest) {
  return '"' + escaped_but(text, longest, "\"\\") + '"';
}

std::string escaped(std::string_view text, size_t longest) {
  return escaped_but(text, longest, "");
}

std::string printable(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::string_view character = take(text);
    const bool layout = character == "\n" || character == "\t" || character == "\r";
    safe += layout || harmless_length(character) != 0 ? character : kReplacement;
  }
  return safe;
}

std::string safe_message(std::string_view message) {
  std::string safe;
  size_t in_line = 0;
  while (!message.empty()) {
    const std::string_view character = take(message);
    in_line = character == "\n" ? 0 : in_line + 1;
    if (in_line == kLongestLine) safe += "...";
    if (in_line < kLongestLine) safe += printable(character);
  }
  return safe;
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return quoted + "'";
}

std::string json_string(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20)
      literal += json_escape(static_cast<unsigned char>(c));
    else
      literal += c;
  }
  return literal + '"';
}

}  // namespace hydrac::runtime
