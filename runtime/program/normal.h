// Normal random numbers, the same on every machine: without functions of a math library, whose last bits
// differ between machines.
#pragma once
#include <cstdint>
#include <span>

namespace hydrac::runtime {

// Fills `out` with values of a normal distribution of mean 0: Box-Muller over Philox2x32 (hydrac/random.h), a
// pair of values for each counter from `counter` on. In float32, within 2^-20 deviations of the exact
// transform; no value is beyond 5.9 deviations. `key` stands for the random tensor.
void fill_normal(std::span<float> out, std::uint64_t counter, float deviation, std::uint32_t key);

}  // namespace hydrac::runtime
