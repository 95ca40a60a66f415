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

// 32 uniform bits for element `index` of the tensor that `key` stands for.
HYDRAC_FN std::uint32_t random_bits(std::uint32_t key, std::uint64_t index) {
  return philox2x32(static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), key).x;
}

// 16 uniform bits for element `index`. Four neighbours share one run of the generator: kernels that hold them
// in one thread compute it once.
HYDRAC_FN std::uint32_t random_16_bits(std::uint32_t key, std::uint64_t index) {
  const std::uint64_t group = index >> 2;
  const Philox2x32 bits =
      philox2x32(static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), key);
  const std::uint32_t word = (index & 2) == 0 ? bits.x : bits.y;
  return (index & 1) == 0 ? word & 0xFFFFu : word >> 16;
}

// x as one of the two bf16 numbers around it, `noise` being 16 uniform bits: away from zero with the
// probability of its distance from the nearer to zero, so that the mean over all noise is x, and a bf16
// number stays what it is. NaN, infinity, and what lies beyond bf16's largest number come back as they are.
HYDRAC_FN float round_stochastically(float x, std::uint32_t noise) {
  constexpr float largest = 0x1.FEp127f;
  const float rounded = float_from_bits((float_bits(x) + noise) & 0xFFFF0000u);
  return abs(x) < largest ? rounded : x;
}

}  // namespace hydrac
