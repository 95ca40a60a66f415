// BERT's tokenizer (WordPiece): the ids of a text for an encoder of sentences. It has no way back to text.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/text/tokenizer/added_tokens.h"
#include "runtime/text/tokenizer/bert_text.h"

namespace hydrac::runtime {

// The files of a tokenizer, read.
struct WordPieceFile {
  std::unordered_map<std::string, int32_t> vocabulary;
  std::vector<AddedToken> added;  // looked for in the text as it came
  BertNormalizer normalizer;
  std::string continuing_prefix = "##";
  int64_t max_characters = 100;              // of a word that is known
  int32_t unknown = 0, first = 0, last = 0;  // [UNK], and what begins and ends a text: [CLS], [SEP]
};

class WordPiece {
 public:
  explicit WordPiece(WordPieceFile file);

  // [CLS] text [SEP], cut before [SEP] to at most `most` ids, which is at least 2. InputError for malformed
  // UTF-8, naming the byte offset.
  std::vector<int32_t> encode(std::string_view text, int64_t most) const;

  int64_t vocab_size() const { return vocab_size_; }  // one more than the largest id
  // 16 hex digits of a 64-bit hash over what decides the ids.
  std::string fingerprint() const;

 private:
  void append_word(std::string_view word, std::vector<int32_t>& ids) const;

  WordPieceFile file_;
  AddedTokenMatcher added_;
  int64_t vocab_size_ = 0;
};

// From the text of a tokenizer.json, which messages call `shown_as`. InputError where it describes another
// tokenizer than BERT's, or is damaged.
WordPiece parse_wordpiece(std::string_view json, const std::string& shown_as);

// Loads an encoder's tokenizer from its folder: tokenizer.json, or vocab.txt with what tokenizer_config.json
// says of it. InputError for files that cannot be read, or describe another tokenizer than BERT's.
WordPiece load_wordpiece(const std::filesystem::path& folder);

}  // namespace hydrac::runtime
