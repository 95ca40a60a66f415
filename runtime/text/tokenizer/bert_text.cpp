#include "runtime/text/tokenizer/bert_text.h"

#include <algorithm>
#include <array>

#include "runtime/base/utf8.h"
#include "runtime/text/unicode.h"

namespace hydrac::runtime {

namespace {

constexpr char32_t kReplacement = 0xFFFD;

// The blocks that Hugging Face's library counts as Chinese. Of U+2B820 to U+2CEAF it lacks the first 256.
bool is_chinese(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  static constexpr auto kRanges = std::to_array<Range>({{0x3400, 0x4DBF},
                                                        {0x4E00, 0x9FFF},
                                                        {0xF900, 0xFAFF},
                                                        {0x20000, 0x2A6DF},
                                                        {0x2A700, 0x2B81F},
                                                        {0x2B920, 0x2CEAF},
                                                        {0x2F800, 0x2FA1F}});
  return std::ranges::any_of(kRanges,
                             [&](const Range& range) { return range.first <= c && c <= range.last; });
}

// Characters that stay in a line of text, in BERT's sense.
bool is_line_space(char32_t c) {
  return c == '\t' || c == '\n' || c == '\r';
}

bool separates(char32_t c) {
  const bool is_ascii =
      (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return is_ascii || is_punctuation(c);
}

std::string without_accents(std::string_view text) {
  const std::string decomposed = to_nfd(text);
  std::string out;
  for (size_t at = 0; at < decomposed.size();) {
    const char32_t c = next_code_point(decomposed, at);
    if (!is_nonspacing_mark(c)) append_utf8(c, out);
  }
  return out;
}

std::string lower_case(std::string_view text) {
  constexpr char32_t dotted_capital_i = 0x130, combining_dot = 0x307;  // the one letter that becomes two
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    append_utf8(c == dotted_capital_i ? U'i' : to_lower(c), out);
    if (c == dotted_capital_i) append_utf8(combining_dot, out);
  }
  return out;
}

}  // namespace

std::string BertNormalizer::normalize(std::string_view text) const {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (clean_text && (c == 0 || c == kReplacement || (is_control(c) && !is_line_space(c)))) continue;
    if (clean_text && is_white_space(c)) {
      out += ' ';
    } else if (handle_chinese_chars && is_chinese(c)) {
      out += ' ';
      append_utf8(c, out);
      out += ' ';
    } else {
      append_utf8(c, out);
    }
  }
  if (strip_accents.value_or(lowercase)) out = without_accents(out);
  if (lowercase) out = lower_case(out);
  return out;
}

std::vector<std::string_view> bert_words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;  // of the word that is read
  const auto end_word = [&](size_t end) {
    if (end > begin) words.push_back(text.substr(begin, end - begin));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const char32_t c = next_code_point(text, at);
    const bool is_space = is_white_space(c);
    if (!is_space && !separates(c)) continue;
    end_word(here);
    if (!is_space) words.push_back(text.substr(here, at - here));
    begin = at;
  }
  end_word(text.size());
  return words;
}

}  // namespace hydrac::runtime
