// Counter-based random numbers (Philox2x32, ten rounds), written from the published algorithm and not shared
// with the runtime: equal seeds, steps, sites and indices must give equal bits in both.
#pragma once
#include <cstdint>

namespace hydrac::oracle {

// The key of one dropout site in one step.
std::uint32_t random_key(std::uint32_t seed, std::uint32_t step, std::uint32_t site);

// 32 uniform bits for element `index`.
std::uint32_t random_bits(std::uint32_t key, std::uint64_t index);

}  // namespace hydrac::oracle
