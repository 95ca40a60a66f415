// From a corpus's files to its tokens, through the cache.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/token_store.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {

struct TokenizeProgress {
  int64_t bytes_done;
  int64_t bytes_total;
  int64_t tokens;
};

struct CorpusOptions {
  std::filesystem::path base;         // patterns are relative to it
  std::vector<std::string> patterns;  // text, JSONL and JSON, or token shards (not both)
  bool raw_uint16 = false;            // all files are raw ids: see open_raw_tokens()
  std::string text_key = "text";      // of JSONL lines
  std::filesystem::path cache_dir;    // made when missing; empty: tokens stay in memory
  int64_t enough_tokens = 0;          // above 0: the beginning of the data, with about so many
  bool* is_cut = nullptr;             // becomes true where there is more; may be null
  std::function<void(const TokenizeProgress&)> progress;  // now and then while tokenizing; may be empty
  std::function<void(const std::string&)> notice;         // one line the user should see; may be empty
};

// The tokens of all files in order, end_of_text between documents where the tokenizer has one. Tokenized text
// comes from the cache when it is there and whole; else it is made and stored. A cache that cannot be written
// costs a notice. Throws InputError as for_each_document() and encode() do, naming the file.
std::shared_ptr<const TokenStore> load_tokens(const CorpusOptions& options, const Tokenizer& tokenizer);

// The character tokenizer of a corpus: make_char_tokenizer() over its documents.
std::unique_ptr<Tokenizer> make_corpus_char_tokenizer(const CorpusOptions& options);

}  // namespace hydrac::runtime
