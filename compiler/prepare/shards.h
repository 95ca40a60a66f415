// Token shards, the files that data.path reads.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "prepare/mixture.h"
#include "prepare/token_corpus.h"

namespace hydrac::prepare {

struct ShardOptions {
  std::filesystem::path folder;
  std::string prefix;                        // "train": train-00001.bin, ...
  uint64_t tokens = uint64_t{1} << 26;       // of a shard; the last one has what is left
  uint64_t fingerprint = 0;                  // of the tokenizer
  std::optional<int32_t> end_of_text;        // what Stretch::add_end adds
  std::function<void(int64_t tokens)> done;  // hears how many are written; may be empty
};

// Writes the stretches one after another; a document may continue in the next shard. Returns the files' names
// in order. Throws as write_token_shard().
std::vector<std::string> write_shards(const TokenCorpus& corpus, const std::vector<Stretch>& stretches,
                                      const ShardOptions& options);

}  // namespace hydrac::prepare
