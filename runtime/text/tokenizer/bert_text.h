// Text as BERT's tokenizer sees it: normalized, and cut into words.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::runtime {

// BertNormalizer's settings in a tokenizer.json.
struct BertNormalizer {
  bool clean_text = true;            // control characters go, white space becomes spaces
  bool handle_chinese_chars = true;  // each is a word
  bool lowercase = true;
  std::optional<bool> strip_accents = {};  // absent: as lowercase says

  // Takes well-formed text.
  std::string normalize(std::string_view text) const;
};

// The words of normalized text in their order: what stands between white space, and each punctuation
// character by itself. Views into `text`.
std::vector<std::string_view> bert_words(std::string_view text);

}  // namespace hydrac::runtime
