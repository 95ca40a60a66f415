// How data.val_fraction splits data into training and validation, and which fractions leave enough for both.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace hydrac::runtime {

// The first floor(size * (1 - val_fraction)) of `size` tokens or rows train, the rest validate (nanoGPT's
// split).
int64_t training_part(int64_t size, double val_fraction);

// The smallest fraction of two digits, from 0.0001 to 0.5, with which both parts of each of `sizes` have at
// least `needed`; nothing where there is none.
std::optional<double> smallest_val_fraction(std::span<const int64_t> sizes, int64_t needed);

}  // namespace hydrac::runtime
