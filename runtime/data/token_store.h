// A corpus as one long row of token ids, memory-mapped where it lies in files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/sources.h"
#include "runtime/data/tokenizer.h"

namespace hydrac::runtime {

// One or more segments of little-endian uint16 or uint32 ids, read as one. Immutable; safe from several
// threads.
class TokenStore {
 public:
  struct Segment {
    std::shared_ptr<const void> owner;  // keeps `data` alive: a mapping or a vector
    const void* data;                   // [count] of uint16_t or uint32_t
    int width;                          // bytes an id: 2 or 4
    int64_t count;
    std::string name;  // for messages
  };
  // Ids at or above `vocab_size` are found when they are read.
  TokenStore(std::vector<Segment> segments, int64_t vocab_size);

  int64_t size() const { return size_; }
  // Writes ids [begin, begin + out.size()). Throws InputError for an id outside the vocabulary, naming file
  // and position.
  void read(int64_t begin, std::span<int32_t> out) const;

 private:
  std::vector<Segment> segments_;
  std::vector<int64_t> starts_;  // of each segment; ascending
  int64_t size_ = 0;
  int64_t vocab_size_;
};

struct TokenizeProgress {
  int64_t bytes_done;
  int64_t bytes_total;
  int64_t tokens;
};

struct CorpusOptions {
  std::filesystem::path base;                             // patterns are relative to it
  std::vector<std::string> patterns;                      // text and JSONL files, or token shards (not both)
  std::string text_key = "text";                          // of JSONL lines
  std::filesystem::path cache_dir;                        // made when missing; empty: tokens stay in memory
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
