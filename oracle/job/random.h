// Counter-based random numbers (Philox2x32, ten rounds), written from the published algorithm and not shared
// with the runtime: equal seeds, steps, sites and indices must give equal bits in both.
#pragma once
#include <cstdint>

namespace hydrac::oracle {

// The key of one dropout site in one step.
std::uint32_t random_key(std::uint32_t seed, std::uint32_t step, std::uint32_t site);

// 32 uniform bits for element `index`.
std::uint32_t random_bits(std::uint32_t key, std::uint64_t index);

// 16 of them: elements 4 i to 4 i + 3 have the two words of draw i, the low half of a word first.
std::uint32_t random_16_bits(std::uint32_t key, std::uint64_t index);

// x rounded to bf16: of the float32 nearest to it, up in magnitude with the probability of its distance, in
// bf16 ulps, from the bf16 number towards zero; that is, if noise / 2^16 plus that distance reaches 1. What
// is not finite, or beyond bf16's largest number, stays.
double round_stochastically(double x, std::uint32_t noise);

}  // namespace hydrac::oracle
