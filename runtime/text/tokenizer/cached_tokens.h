// A corpus's tokens from the cache folder, or made and put there. Internal to loading.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/load_tokens.h"

namespace hydrac::runtime {

// Tokens on their way to a cache: of 2 or 4 bytes.
class PackedTokens {
 public:
  explicit PackedTokens(int width) : width_(width) {}

  // `tokens` of 4 bytes, which `width` bytes can hold.
  template <class Token>
  requires(sizeof(Token) == 4) void append(const std::vector<Token>& tokens) {
    const size_t old = bytes_.size();
    const auto width = static_cast<size_t>(width_);
    bytes_.resize(old + tokens.size() * width);
    char* to = bytes_.data() + old;
    for (const Token& token : tokens) {
      std::memcpy(to, &token, width);  // little-endian: the low bytes come first
      to += width;
    }
  }
  int width() const { return width_; }
  std::string_view bytes() const { return bytes_; }
  int64_t count() const { return static_cast<int64_t>(bytes_.size()) / width_; }
  std::string release() { return std::move(bytes_); }

 private:
  int width_;
  std::string bytes_;
};

// Ends a visit of the data: CorpusOptions::enough_tokens are there.
struct EnoughTokens {};

// Says now and then how far tokenizing has come.
class TokenizeReport {
 public:
  TokenizeReport(const std::vector<InputFile>& files, const CorpusOptions& options);
  // Throws EnoughTokens.
  void at(int64_t bytes_done, int64_t tokens);
  void end(int64_t tokens);

 private:
  const CorpusOptions& options_;
  int64_t total_ = 0, step_, reported_ = 0;
};

// The files of the patterns, none of which may be a token shard or CSV: InputError. `why_no_shards`: what to
// say where one of them is a token shard.
std::vector<InputFile> text_files(const CorpusOptions& options, const char* why_no_shards);

// A hash of the files' names and contents, of the tokenizer, and of what else decides the tokens; 0 without a
// cache, for which no file is read.
uint64_t token_key(const CorpusOptions& options, const std::vector<InputFile>& files,
                   const Tokenizer& tokenizer, const std::vector<std::string>& decides);

// The tokens for `key`: stored ones where the cache has them whole, else what `make` makes, which is stored.
TokenStore::Segment cached_tokens(const CorpusOptions& options, uint64_t key, const Tokenizer& tokenizer,
                                  const std::function<PackedTokens()>& make);

}  // namespace hydrac::runtime
