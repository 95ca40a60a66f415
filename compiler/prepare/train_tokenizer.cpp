#include "prepare/train_tokenizer.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "prepare/bpe_trainer.h"
#include "prepare/byte_letters.h"
#include "prepare/ordered_work.h"
#include "runtime/error.h"
#include "runtime/text/tokenizer/pretokenizer.h"

namespace hydrac::prepare {

namespace {

// GPT-2's, with its pattern.
constexpr const char* kByteLevel =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

std::string tokenizer_json(const LearnedMerges& learned) {
  const size_t end_of_text = learned.tokens.size();
  std::string vocabulary;
  for (size_t id = 0; id < learned.tokens.size(); ++id)
    vocabulary += fmt::format("      {}: {},\n", quoted(in_letters(learned.tokens[id])), id);
  vocabulary += fmt::format("      {}: {}\n", quoted(std::string(kEndOfText)), end_of_text);
  std::string merges;
  for (const auto& [left, right] : learned.merges) {
    const std::string pair = in_letters(learned.tokens[static_cast<size_t>(left)]) + " " +
                             in_letters(learned.tokens[static_cast<size_t>(right)]);
    merges += fmt::format("{}\n      {}", merges.empty() ? "" : ",", quoted(pair));
  }
  return fmt::format(
      R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [
    {{"id": {0}, "content": "{1}", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}}
  ],
  "normalizer": null,
  "pre_tokenizer": {2},
  "post_processor": null,
  "decoder": {2},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {{
{3}    }},
    "merges": [{4}
    ]
  }}
}}
)",
      end_of_text, kEndOfText, kByteLevel, vocabulary, merges);
}

// First texts of batches, each about a MiB, and the number of texts behind them.
std::vector<size_t> batches_of(std::span<const std::string_view> texts) {
  constexpr size_t kBatch = size_t{1} << 20;
  std::vector<size_t> begins = {0};
  size_t bytes = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    bytes += texts[i].size();
    if (bytes < kBatch && i + 1 < texts.size()) continue;
    begins.push_back(i + 1);
    bytes = 0;
  }
  return begins;
}

}  // namespace

WordCounts count_words(std::span<const std::string_view> texts, int threads,
                       const std::function<void(int64_t)>& done) {
  const runtime::PreTokenizer pattern(nlohmann::json::parse(kByteLevel), "GPT-2's pattern");
  // A table a thread; which words it counts changes from run to run, their sums do not.
  struct Worker {
    WordCounts words;
    runtime::Regex::Scratch scratch;
  };
  std::mutex mutex;
  std::vector<std::unique_ptr<Worker>> idle;
  const auto borrow = [&] {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<Worker>();
    std::unique_ptr<Worker> worker = std::move(idle.back());
    idle.pop_back();
    return worker;
  };
  const std::vector<size_t> batches = batches_of(texts);
  int64_t bytes = 0;
  for_each_in_order<int64_t>(
      batches.size() - 1, threads,
      [&](size_t batch) {
        std::unique_ptr<Worker> worker = borrow();
        int64_t counted = 0;
        for (size_t i = batches[batch]; i < batches[batch + 1]; ++i) {
          pattern.split(texts[i], worker->scratch, [&](std::string_view word) { worker->words.add(word); });
          counted += static_cast<int64_t>(texts[i].size());
        }
        const std::lock_guard lock(mutex);
        idle.push_back(std::move(worker));
        return counted;
      },
      [&](size_t, int64_t&& counted) {
        bytes += counted;
        if (done) done(bytes);
      });
  WordCounts words;
  for (const std::unique_ptr<Worker>& worker : idle) {
    if (words.size() == 0)
      words = std::move(worker->words);
    else
      words.add(worker->words);
  }
  return words;
}

std::string train_tokenizer(const WordCounts& words, int64_t vocab_size,
                            const std::function<void(int64_t)>& progress) {
  const LearnedMerges learned = learn_merges(words, vocab_size - 1, progress);
  const int64_t found = static_cast<int64_t>(learned.tokens.size()) + 1;
  if (found < vocab_size) {
    throw runtime::InputError(
        fmt::format("a vocabulary of {} is larger than this text gives: {} tokens are found, and then no "
                    "pair of them occurs twice; ask for {} at most, or give more text",
                    vocab_size, found, found));
  }
  return tokenizer_json(learned);
}

}  // namespace hydrac::prepare
