// Numbers from -1 or 0 to 1 as 8-bit codes with a relative error that hardly depends on their size: dynamic
// tree quantization (Dettmers et al.: 8-bit Optimizers via Block-wise Quantization, ICLR 2022). The codes are
// those of bitsandbytes' create_dynamic_map: seven decades from 1e-7 to 1, each with evenly spaced values in
// the middle of its buckets, twice as many as in the decade below; 0; and 1. Arithmetic replaces the table of
// 256 numbers. Value j of the decade with n values, a power of two, has the number n + j. In
//   n + j + 1/2 = n w,  value = (0.9 w - 0.8) / 10^k
// w lies between 1 and 2 in every decade, and k is the decade. Branch-free, as in hydrac/math.h: the
// conditions below make products that an instruction does or does not do.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac {

namespace detail {

// The number of the value nearest to y >= 0; 2 kFinest for 1, where kFinest is the count of values in the
// decade from 0.1 to 1. Below half the smallest value the result is that value's number or less. Bucket 0 of
// a decade and the last one of the decade below meet 0.2 buckets above the border between the two.
template <int kFinest>
HYDRAC_FN std::int32_t dynamic_number(float y) {
  float n = kFinest;
  if (y < 1e-4f) y *= 1e4f, n *= 0x1p-4f;
  if (y < 1e-2f) y *= 1e2f, n *= 0x1p-2f;
  if (y < 1e-1f) y *= 1e1f, n *= 0x1p-1f;
  float number = n * fma(y, 10.0f / 9.0f, 8.0f / 9.0f);
  if (number < n + 0.2f) number = n - 1.0f;
  if (!(number < 2 * kFinest - 0.25f)) number = 2 * kFinest;
  return static_cast<std::int32_t>(number);
}

// The value with that number, times `unit`.
template <int kFinest>
HYDRAC_FN float dynamic_value(float number, float unit) {
  float middle = number + 0.5f;
  if (middle < kFinest / 8) middle *= 16.0f, unit *= 1e-4f;
  if (middle < kFinest / 2) middle *= 4.0f, unit *= 1e-2f;
  if (middle < kFinest) middle *= 2.0f, unit *= 1e-1f;
  const float share = fma(middle, 0.9f / kFinest, -0.8f);
  return (share < 1.0f ? share : 1.0f) * unit;
}

}  // namespace detail

// Code of y between -1 and 1: 127 for 0, less for negative numbers, more for positive ones. The nearest
// value, but -1 has no code of its own. NaN gives an arbitrary code.
HYDRAC_FN std::uint32_t signed_dynamic_code(float y) {
  const float size = abs(y);
  std::int32_t number = detail::dynamic_number<64>(size);
  const std::int32_t least = size < 2.75e-7f ? 0 : 1;
  if (number < least) number = least;
  if (y < 0.0f) number = -number;
  return static_cast<std::uint32_t>(127 + (number < -127 ? -127 : number));
}
HYDRAC_FN float signed_dynamic_value(std::uint32_t code) {
  const float number = static_cast<float>(static_cast<std::int32_t>(code)) - 127.0f, size = abs(number);
  return copy_sign(detail::dynamic_value<64>(size, size < 1.0f ? size : 1.0f), number);
}

// Code of y between 0 and 1; 0 for 0 alone, otherwise nearest: a divisor does not become 0.
HYDRAC_FN std::uint32_t dynamic_code(float y) {
  const std::int32_t number = detail::dynamic_number<128>(y), least = y > 0.0f ? 2 : 1;
  return static_cast<std::uint32_t>((number < least ? least : number) - 1);
}
HYDRAC_FN float dynamic_value(std::uint32_t code) {
  const float number = static_cast<float>(static_cast<std::int32_t>(code));
  return detail::dynamic_value<128>(number + 1.0f, number < 1.0f ? number : 1.0f);
}

}  // namespace hydrac
