// Choosing the next token from logits: temperature, top-k, top-p; reproducible from seed and position alone.
#pragma once
#include <cstdint>
#include <span>

namespace hydrac::runtime {

struct SampleOptions {
  double temperature = 1.0;  // 0: the most likely token
  int64_t top_k = 0;         // only the k most likely tokens; 0: all
  double top_p = 1.0;        // only the fewest most likely tokens that together reach this probability
  uint64_t seed = 0;
};

// InputError naming the option that is out of its range.
void check_sample_options(const SampleOptions& options);

// A number in [0, 1) from a counter: with mix64(z) = SplitMix64's finalizer,
//   uniform = (mix64(mix64(seed) + (position + 1) * 0x9e3779b97f4a7c15) >> 11) * 2^-53.
double sample_uniform(uint64_t seed, uint64_t position);

// The token drawn for `position` (0, 1, ... along the text, prompt included). `logits`: one per token of the
// vocabulary, without padding; -infinity rules a token out. Temperature acts first, then top-k, then top-p on
// what is left. Equal logits rank by their id, lower first, so k means k. RunError when logits are empty,
// contain NaN or +infinity, or rule out everything; InputError as check_sample_options.
int32_t sample_token(std::span<const float> logits, const SampleOptions& options, uint64_t position);

}  // namespace hydrac::runtime
