// A byte-level BPE tokenizer learned from text: GPT-2's kind, as Hugging Face's tokenizers package stores it.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "prepare/word_counts.h"

namespace hydrac::prepare {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";
inline constexpr int64_t kSmallestVocabulary = 257;  // the bytes, and <|endoftext|>

// The words of these texts, split by GPT-2's pattern. Texts are well-formed UTF-8 without <|endoftext|>, and
// each is split by itself. `done` is called with the bytes counted so far, on the calling thread.
WordCounts count_words(std::span<const std::string_view> texts, int threads,
                       const std::function<void(int64_t bytes)>& done = {});

// The tokenizer.json with `vocab_size` tokens (kSmallestVocabulary or more): the bytes, the merges of
// learn_merges(), and <|endoftext|> last. InputError, with the number, if the words give fewer. `progress` is
// called now and then with the number of tokens.
std::string train_tokenizer(const WordCounts& words, int64_t vocab_size,
                            const std::function<void(int64_t tokens)>& progress = {});

}  // namespace hydrac::prepare
