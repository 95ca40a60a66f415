// Texts of random ids, for those who measure how fast a model generates.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace hydrac::cli {

// Ids alone, without text or an end of it.
class NoText final : public runtime::Tokenizer {
 public:
  explicit NoText(int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string_view token_bytes(int32_t) const override { return ""; }
  int64_t vocab_size() const override { return vocabulary_; }
  const runtime::EndTokens& end_tokens() const override { return ends_; }
  bool is_special(int32_t) const override { return true; }
  std::string_view name() const override { return "none"; }
  std::string to_json() const override { return "{}"; }

 private:
  void do_encode(std::string_view, std::vector<int32_t>&, const ByteProgress&) const override {}
  uint64_t fingerprint_bits() const override { return 0; }

  const runtime::EndTokens ends_;  // none
  int64_t vocabulary_;
};

// `count` of `tokens` ids each, below `vocabulary`; always the same.
std::vector<std::vector<int32_t>> random_prompts(int64_t count, int64_t tokens, int64_t vocabulary);

}  // namespace hydrac::cli
