// Counter-based random numbers (Philox2x32, ten rounds), written from the published algorithm and not shared
// with the runtime: equal seeds, steps, sites and indices must give equal bits in both.
#pragma once
#include <cstdint>

namespace hydrac::oracle {

// The key of one dropout site in one step.
std::uint32_t random_key(std::uint32_t seed, std::uint32_t step, std::uint32_t site);

// 16 uniform bits for element `index`: of the two words for index / 4 the lower and upper half of the first,
// then those of the second.
std::uint32_t random_16_bits(std::uint32_t key, std::uint64_t index);

// The index of a score of attention, of a head that is number `head` of all sequences' heads. Its last two
// bits say whether query and key are in the second half of their 16; what stands before them counts the 8 x 8
// other combinations of a block of 16 x 16, by queries first over the whole matrix, below the head's number
// in bits 34 and up.
std::uint64_t score_index(std::int64_t head, std::int64_t tokens, std::int64_t query, std::int64_t key);

// x rounded to bf16: of the float32 nearest to it, up in magnitude with the probability of its distance, in
// bf16 ulps, from the bf16 number towards zero; that is, if noise / 2^16 plus that distance reaches 1. What
// is not finite, or beyond bf16's largest number, stays.
double round_stochastically(double x, std::uint32_t noise);

}  // namespace hydrac::oracle
