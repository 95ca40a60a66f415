// Choosing the next token from logits: repetition penalty, temperature, top-k, top-p, min-p; reproducible
// from seed and position alone.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace hydrac::runtime {

struct SampleOptions {
  double temperature = 1.0;  // 0: the most likely token
  int64_t top_k = 0;         // only the k most likely tokens; 0: all
  double top_p = 1.0;        // only the fewest most likely tokens that together reach this probability
  double min_p = 0;  // only tokens with at least this share of the likeliest one's probability; 0: all
  // Divides the positive logits of tokens that the text holds, and multiplies the negative ones; 1: off.
  double repetition_penalty = 1;
  uint64_t seed = 0;
};

// InputError naming the option that is out of its range.
void check_sample_options(const SampleOptions& options);

// A number in [0, 1) from a counter: with mix64(z) = SplitMix64's finalizer,
//   uniform = (mix64(mix64(seed) + (position + 1) * 0x9e3779b97f4a7c15) >> 11) * 2^-53.
double sample_uniform(uint64_t seed, uint64_t position);

// The token drawn for `position` (0, 1, ... along the text, prompt included). `logits`: one per token of the
// vocabulary, without padding; -infinity rules a token out. `text`: the tokens so far, for the repetition
// penalty; ids without a logit are ignored. The penalty acts first, then temperature, then top-k, then top-p
// on the rest, then min-p. Equal logits rank by their id, lower first, so k means k. RunError if logits are
// empty, contain NaN or +infinity, or rule out everything; InputError as check_sample_options.
int32_t sample_token(std::span<const float> logits, const SampleOptions& options, uint64_t position,
                     std::span<const int32_t> text = {});

// The largest logits of a row, largest first, equal ones by their id; a short row ends with ids of -1. `sum`:
// of exp((logit - the largest) / temperature) over the whole row, to float precision.
struct TopLogits {
  std::span<const float> values;
  std::span<const int32_t> ids;
  double sum = 0;
  int32_t drawn = -1;  // by sample_uniform() from the whole row, as a temperature alone asks; else ids[0]
};

// True if a token is drawn from the whole row by a temperature alone.
bool samples_from_all(const SampleOptions& options);

// True if sample_token() usually finds a token in the `count` largest logits or, if samples_from_all(), in
// `drawn`.
bool samples_from_top(const SampleOptions& options, int64_t count);

// The token that sample_token() draws from the whole row. `drawn` may be a neighbouring token if the random
// number falls on the border of two tokens' shares, because the device adds in another order. nullopt if the
// largest logits do not decide the token (too few reach top_p, say) or are not finite.
std::optional<int32_t> sample_token(const TopLogits& top, const SampleOptions& options, uint64_t position);

}  // namespace hydrac::runtime
