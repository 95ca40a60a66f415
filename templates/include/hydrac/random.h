// Counter-based random bits: the same on every target, in any order, on any number of threads.
// The generator is Philox2x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC
// 2011).
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac {

struct Philox2x32 {
  std::uint32_t x, y;
};

// Ten rounds on the counter {x, y}.
HYDRAC_FN Philox2x32 philox2x32(std::uint32_t x, std::uint32_t y, std::uint32_t key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product = std::uint64_t{0xD256D193u} * x;
    x = static_cast<std::uint32_t>(product >> 32) ^ key ^ y;
    y = static_cast<std::uint32_t>(product);
    key += 0x9E3779B9u;
  }
  return {x, y};
}

// The key of one random tensor: `site` numbers the place in the program (which dropout), `step` the optimizer
// step or micro-step.
HYDRAC_FN std::uint32_t random_key(std::uint32_t seed, std::uint32_t step, std::uint32_t site) {
  return philox2x32(step, site, seed).x;
}

// 16 uniform bits for element `i`, counted from `first` rounded down to a multiple of 4, of the random tensor
// with key `key`. Four neighbours share one run of the generator. A kernel that holds them in one thread runs
// it once: if `i` is a constant, the compiler sees that the runs are the same.
HYDRAC_FN std::uint32_t random_16_bits(std::uint32_t key, std::uint64_t first, std::uint32_t i) {
  const std::uint64_t run = (first >> 2) + (i >> 2);
  const Philox2x32 bits =
      philox2x32(static_cast<std::uint32_t>(run), static_cast<std::uint32_t>(run >> 32), key);
  const std::uint32_t word = (i & 2) == 0 ? bits.x : bits.y;
  return (i & 1) == 0 ? word & 0xFFFFu : word >> 16;
}

// The same for any element `index`.
HYDRAC_FN std::uint32_t random_16_bits(std::uint32_t key, std::uint64_t index) {
  return random_16_bits(key, index, static_cast<std::uint32_t>(index & 3));
}

// The index that random_16_bits takes for a score of attention. `head` counts the heads of all sequences: b *
// H + h; a head's indices follow that of its query 0 and key 0. In each block of 16 x 16 scores, the four
// whose queries and keys are equal or 8 apart share a run of the generator: they are in one thread's
// registers whether a matrix unit's rows are queries or keys. Beyond 2^17 tokens some scores share an index.
HYDRAC_FN std::uint64_t score_index(std::int64_t head, std::int64_t tokens, std::int64_t query,
                                    std::int64_t key) {
  const auto i = static_cast<std::uint32_t>(query), j = static_cast<std::uint32_t>(key);
  const std::uint32_t groups_of_query = (static_cast<std::uint32_t>(tokens) + 15) / 16 * 8;
  const std::uint32_t group = (i / 16 * 8 + i % 8) * groups_of_query + j / 16 * 8 + j % 8;
  return (static_cast<std::uint64_t>(head) << 32 | group) << 2 | i / 8 % 2 * 2 | j / 8 % 2;
}

// Stochastic rounding of x to bf16; `noise` is 16 uniform bits. x becomes one of its two neighbours, with
// probabilities that make the mean over all noise x. A bf16 number does not change, nor do NaN, infinity, and
// numbers beyond bf16's largest.
HYDRAC_FN float round_stochastically(float x, std::uint32_t noise) {
  constexpr float largest = 0x1.FEp127f;
  const float rounded = float_from_bits((float_bits(x) + noise) & 0xFFFF0000u);
  return abs(x) < largest ? rounded : x;
}

}  // namespace hydrac
