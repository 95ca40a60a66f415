#include "runtime/text/tokenizer/wordpiece.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/base/utf8.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"

namespace hydrac::runtime {

WordPiece::WordPiece(WordPieceFile file) : file_(std::move(file)), added_(file_.added) {
  for (const auto& [token, id] : file_.vocabulary) vocab_size_ = std::max<int64_t>(vocab_size_, id + 1);
  for (const AddedToken& token : file_.added) vocab_size_ = std::max<int64_t>(vocab_size_, token.id + 1);
}

std::vector<int32_t> WordPiece::encode(std::string_view text, int64_t most) const {
  if (const auto bad = find_malformed_utf8(text))
    throw InputError(fmt::format("byte {} is not UTF-8; this tokenizer needs UTF-8 text", *bad));
  std::vector<int32_t> ids = {file_.first};
  added_.for_each_stretch(text, [&](std::string_view stretch, const AddedToken* token) {
    if (token != nullptr) return ids.push_back(token->id);
    const std::string normalized = file_.normalizer.normalize(stretch);
    for (const std::string_view word : bert_words(normalized)) append_word(word, ids);
  });
  ids.resize(std::min(ids.size(), static_cast<size_t>(most) - 1));
  ids.push_back(file_.last);
  return ids;
}

// The longest token that begins the word, then the longest that continues it; of a word that is not made of
// tokens, the one for unknown words.
void WordPiece::append_word(std::string_view word, std::vector<int32_t>& ids) const {
  std::vector<size_t> ends;  // of the word's characters
  for (size_t at = 0; at < word.size();) {
    next_code_point(word, at);
    ends.push_back(at);
  }
  if (std::ssize(ends) > file_.max_characters) return ids.push_back(file_.unknown);
  const size_t before = ids.size();
  std::string piece;
  for (size_t begin = 0; begin < word.size();) {
    size_t next = begin;
    for (auto end = ends.rbegin(); end != ends.rend() && *end > begin; ++end) {
      piece = begin > 0 ? file_.continuing_prefix : "";
      piece += word.substr(begin, *end - begin);
      const auto found = file_.vocabulary.find(piece);
      if (found == file_.vocabulary.end()) continue;
      ids.push_back(found->second);
      next = *end;
      break;
    }
    if (next == begin) {
      ids.resize(before);
      return ids.push_back(file_.unknown);
    }
    begin = next;
  }
}

std::string WordPiece::fingerprint() const {
  Hash64 hash;
  for (const auto& [token, id] : std::map(file_.vocabulary.begin(), file_.vocabulary.end()))
    hash.add(token).add(static_cast<uint64_t>(id));
  for (const AddedToken& token : file_.added)
    hash.add(token.content)
        .add(static_cast<uint64_t>(token.id))
        .add(uint64_t{token.lstrip} | uint64_t{token.rstrip} << 1 | uint64_t{token.single_word} << 2);
  const BertNormalizer& n = file_.normalizer;
  hash.add(uint64_t{n.clean_text} | uint64_t{n.handle_chinese_chars} << 1 | uint64_t{n.lowercase} << 2 |
           uint64_t{n.strip_accents.value_or(n.lowercase)} << 3)
      .add(file_.continuing_prefix)
      .add(static_cast<uint64_t>(file_.max_characters));
  for (const int32_t id : {file_.unknown, file_.first, file_.last}) hash.add(static_cast<uint64_t>(id));
  return fmt::format("{:016x}", hash.value());
}

}  // namespace hydrac::runtime
