// Numbers from -1 or 0 to 1 as 8-bit codes with a relative error that hardly depends on their size: dynamic
// tree quantization (Dettmers et al.: 8-bit Optimizers via Block-wise Quantization, ICLR 2022). The codes are
// those of bitsandbytes' create_dynamic_map: seven decades from 1e-7 to 1, each with evenly spaced values in
// the middle of its buckets, twice as many as in the decade below; 0; and 1. A table of 256 numbers in memory
// becomes arithmetic here: n + j numbers value j of the decade with n values, a power of two, so that in
//   n + j + 1/2 = n w,  value = (0.9 w - 0.8) / 10^k
// w lies between 1 and 2 whatever the decade, and k says which one it is. Branch-free, as in hydrac/math.h.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac {

namespace detail {

// The number of the value nearest to y >= 0; 2 kFinest for 1, kFinest being how many values the decade from
// 0.1 to 1 has. Not below half the smallest value, where the result is less than that value's number or it.
// Bucket 0 of a decade and the last of the decade below meet 0.2 buckets above the border between the two.
template <int kFinest>
HYDRAC_FN std::int32_t dynamic_number(float y) {
  float n = kFinest;
  n *= y < 1e-4f ? 0x1p-4f : 1.0f;
  y *= y < 1e-4f ? 1e4f : 1.0f;
  n *= y < 1e-2f ? 0x1p-2f : 1.0f;
  y *= y < 1e-2f ? 1e2f : 1.0f;
  n *= y < 1e-1f ? 0x1p-1f : 1.0f;
  y *= y < 1e-1f ? 1e1f : 1.0f;
  const float number = n * fma(y, 10.0f / 9.0f, 8.0f / 9.0f);
  const float nearest = number < n + 0.2f ? n - 1.0f : number;
  return static_cast<std::int32_t>(nearest < 2 * kFinest - 0.25f ? nearest : 2 * kFinest);
}

// The value with that number, which is not 0.
template <int kFinest>
HYDRAC_FN float dynamic_magnitude(std::int32_t number) {
  float middle = static_cast<float>(number) + 0.5f, unit = 1.0f;
  unit *= middle < kFinest / 8 ? 1e-4f : 1.0f;
  middle *= middle < kFinest / 8 ? 16.0f : 1.0f;
  unit *= middle < kFinest / 2 ? 1e-2f : 1.0f;
  middle *= middle < kFinest / 2 ? 4.0f : 1.0f;
  unit *= middle < kFinest ? 1e-1f : 1.0f;
  middle *= middle < kFinest ? 2.0f : 1.0f;
  const float value = fma(middle, 0.9f / kFinest, -0.8f) * unit;
  return value < 1.0f ? value : 1.0f;
}

}  // namespace detail

// Of y between -1 and 1: 127 for 0, below it for negative numbers, above it for positive ones. Nearest, but
// -1 has no code of its own. Of NaN, some code.
HYDRAC_FN std::uint32_t signed_dynamic_code(float y) {
  const float size = abs(y);
  const std::int32_t number = detail::dynamic_number<64>(size), least = size < 2.75e-7f ? 0 : 1;
  const std::int32_t positive = number < least ? least : number, negative = positive < 127 ? positive : 127;
  return static_cast<std::uint32_t>(y < 0.0f ? 127 - negative : 127 + positive);
}
HYDRAC_FN float signed_dynamic_value(std::uint32_t code) {
  const std::int32_t number = static_cast<std::int32_t>(code) - 127, size = number < 0 ? -number : number;
  const float magnitude = size == 0 ? 0.0f : detail::dynamic_magnitude<64>(size);
  return number < 0 ? -magnitude : magnitude;
}

// Of y between 0 and 1; 0 for 0 alone, otherwise nearest: what is divided by does not become 0.
HYDRAC_FN std::uint32_t dynamic_code(float y) {
  const std::int32_t number = detail::dynamic_number<128>(y), least = y > 0.0f ? 2 : 1;
  return static_cast<std::uint32_t>((number < least ? least : number) - 1);
}
HYDRAC_FN float dynamic_value(std::uint32_t code) {
  return code == 0 ? 0.0f : detail::dynamic_magnitude<128>(static_cast<std::int32_t>(code) + 1);
}

}  // namespace hydrac
