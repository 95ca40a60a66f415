#include "ir/words.h"

namespace hydrac::ir {

namespace {

bool is_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

void split_words(std::string_view text,
                 const std::function<void(std::string_view part, bool is_word)>& visit) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    const bool is_word = is_part(text[at]);
    while (end < text.size() && is_part(text[end]) == is_word) ++end;
    visit(text.substr(at, end - at), is_word);
    at = end;
  }
}

std::string with_words(std::string_view text,
                       const std::map<std::string, std::string, std::less<>>& renamed) {
  std::string result;
  split_words(text, [&](std::string_view part, bool is_word) {
    const auto found = is_word ? renamed.find(part) : renamed.end();
    result += found == renamed.end() ? part : std::string_view(found->second);
  });
  return result;
}

bool has_word(std::string_view text, std::string_view word) {
  bool found = false;
  split_words(text, [&](std::string_view part, bool is_word) { found |= is_word && part == word; });
  return found;
}

}  // namespace hydrac::ir
