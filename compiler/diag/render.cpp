#include "diag/render.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/quote.h"
#include "runtime/base/utf8.h"

namespace hydrac::diag {
namespace {

constexpr size_t kWidest = 100;  // characters of a source line to show
constexpr size_t kBefore = 60;   // of them before the caret, at most

// The source line as characters, one string each, safe to print.
struct Characters {
  std::vector<std::string> all;
  size_t caret = 0;  // index of the character at the wanted byte
};

Characters split(std::string_view line, size_t caret_byte) {
  Characters characters;
  for (size_t at = 0; at < line.size();) {
    const std::string_view rest = line.substr(at);
    const size_t harmless = runtime::harmless_length(rest);
    if (at < caret_byte) characters.caret = characters.all.size() + 1;
    characters.all.push_back(harmless > 0      ? std::string(rest.substr(0, harmless))
                             : rest[0] == '\t' ? " "
                                               : "?");
    at += std::max<size_t>(1, runtime::utf8_length(rest));
  }
  return characters;
}

std::string quote(std::string_view line, int column) {
  Characters characters = split(line, static_cast<size_t>(column - 1));
  auto& all = characters.all;
  std::string before, after;
  if (all.size() > kWidest) {
    const size_t start = characters.caret > kBefore ? characters.caret - kBefore : 0;
    const size_t end = std::min(all.size(), start + kWidest);
    if (end < all.size()) after = "...";
    all.resize(end);
    if (start > 0) {
      before = "...";
      all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(start));
      characters.caret -= start;
    }
  }
  std::string text = "  " + before;
  for (const std::string& character : all) text += character;
  const size_t indent = 2 + before.size() + characters.caret;
  return text + after + "\n" + std::string(indent, ' ') + "^\n";
}

}  // namespace

std::string render(const Diagnostic& diagnostic, std::string_view source_line) {
  std::string text;
  if (diagnostic.where.known())
    text = fmt::format("{}:{}:{}: ", printable(diagnostic.where.file, 4096), diagnostic.where.line,
                       diagnostic.where.col);
  else if (!diagnostic.where.file.empty())
    text = printable(diagnostic.where.file, 4096) + ": ";
  const char* word = severity(diagnostic.kind) == Severity::error ? "error" : "warning";
  text += fmt::format("{}: {} [{}]\n", word, runtime::safe_message(diagnostic.message), id(diagnostic.kind));
  if (!source_line.empty()) text += quote(source_line, diagnostic.where.col);
  if (!diagnostic.suggestion.empty())
    text += fmt::format("  help: {}\n", runtime::safe_message(diagnostic.suggestion));
  return text;
}

std::string printable(std::string_view text, size_t longest) {
  return runtime::escaped(text, longest);
}

}  // namespace hydrac::diag
