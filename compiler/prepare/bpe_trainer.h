// Learns the merges of byte-pair encoding (Sennrich et al. 2016, over bytes as GPT-2 does).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "prepare/word_counts.h"

namespace hydrac::prepare {

// Ids are the positions in `tokens`: the 256 bytes in GPT-2's order (printing ones first), then the merged
// tokens.
struct LearnedMerges {
  std::vector<std::string> tokens;                  // the bytes of each id
  std::vector<std::pair<int32_t, int32_t>> merges;  // ids, in the order in which they apply
};

// Merges the most frequent pair of adjacent tokens within words, again and again. Ties go to the lower first
// id, then to the lower second id (as in Hugging Face's trainer). Ends with `num_tokens` tokens (at least
// 256), or earlier where no pair occurs twice. Depends on the counts alone. `progress` hears now and then how
// many tokens there are. InputError for more than 4 GiB of different words.
LearnedMerges learn_merges(const WordCounts& words, int64_t num_tokens,
                           const std::function<void(int64_t tokens)>& progress = {});

}  // namespace hydrac::prepare
