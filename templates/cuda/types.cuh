// Storage types of CUDA kernels and 16-byte accesses to them. Arithmetic is in float: a value widens when it
// is loaded and rounds, to nearest even, when it is stored. Compiles as host code too, for tests.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac {

struct bf16 {
  std::uint16_t bits;
};
struct f16 {
  std::uint16_t bits;
};
struct f8e4m3 {
  std::uint8_t bits;
};
struct f8e5m2 {
  std::uint8_t bits;
};

// Floats of fewer than 32 bits.
template <typename T>
inline constexpr bool is_narrow = false;
template <>
inline constexpr bool is_narrow<bf16> = true;
template <>
inline constexpr bool is_narrow<f16> = true;
template <>
inline constexpr bool is_narrow<f8e4m3> = true;
template <>
inline constexpr bool is_narrow<f8e5m2> = true;

HYDRAC_FN float to_float(float x) {
  return x;
}
HYDRAC_FN float to_float(bf16 x) {
  return float_from_bits(static_cast<std::uint32_t>(x.bits) << 16);
}
HYDRAC_FN float to_float(f16 x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
#else
  return static_cast<float>(__builtin_bit_cast(_Float16, x.bits));
#endif
}

template <typename T>
HYDRAC_FN T from_float(float x);
template <>
HYDRAC_FN float from_float<float>(float x) {
  return x;
}
template <>
HYDRAC_FN bf16 from_float<bf16>(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
#else
  const std::uint32_t bits = float_bits(x);
  if (x != x) return {0x7FFF};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
#endif
}
template <>
HYDRAC_FN f16 from_float<f16>(float x) {
#if defined(__CUDA_ARCH__)
  f16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
#else
  return {__builtin_bit_cast(std::uint16_t, static_cast<_Float16>(x))};
#endif
}

// 8 bits: sign, exponent, mantissa. Numbers beyond the largest, infinities included, become the largest; NaN
// stays NaN.
namespace detail {

// The number with its sign taken off, in software: |x| scaled so that a unit of the smallest numbers is 1.
template <unsigned kMantissa, unsigned kBias, unsigned kLargest>
HYDRAC_FN std::uint8_t f8_bits(float x) {
  const std::uint32_t sign = float_bits(x) >> 24 & 0x80u, magnitude = float_bits(x) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<std::uint8_t>(sign | 0x7Fu);
  constexpr std::uint32_t smallest_normal = (128u - kBias) << 23;
  std::uint32_t bits;
  if (magnitude < smallest_normal) {
    const float units = float_from_bits(magnitude) * float_from_bits((127u + kBias - 1 + kMantissa) << 23);
    bits = float_bits(units + 8388608.0f) - float_bits(8388608.0f);  // rounds to even
  } else {
    constexpr unsigned dropped = 23u - kMantissa;
    const std::uint32_t rounded = magnitude + ((1u << (dropped - 1)) - 1u) + (magnitude >> dropped & 1u);
    bits = (rounded >> dropped) - ((127u - kBias) << kMantissa);
  }
  return static_cast<std::uint8_t>(sign | (bits > kLargest ? kLargest : bits));
}

template <unsigned kMantissa, unsigned kBias>
HYDRAC_FN float f8_value(std::uint8_t bits) {
  const std::uint32_t exponent = (bits & 0x7Fu) >> kMantissa, mantissa = bits & ((1u << kMantissa) - 1u);
  const std::uint32_t sign = (bits & 0x80u) << 24;
  if (exponent == 0) {
    const float unit = float_from_bits((128u - kBias - kMantissa) << 23);
    return float_from_bits(sign | float_bits(static_cast<float>(mantissa) * unit));
  }
  return float_from_bits(sign | (exponent + 127u - kBias) << 23 | mantissa << (23 - kMantissa));
}

}  // namespace detail

HYDRAC_FN float to_float(f8e4m3 x) {
  if ((x.bits & 0x7Fu) == 0x7Fu) return float_from_bits(0x7FC00000u);
  return detail::f8_value<3, 7>(x.bits);
}
HYDRAC_FN float to_float(f8e5m2 x) {
  if ((x.bits & 0x7Fu) > 0x7Cu) return float_from_bits(0x7FC00000u);
  if ((x.bits & 0x7Fu) == 0x7Cu) return float_from_bits((x.bits & 0x80u) << 24 | 0x7F800000u);
  return detail::f8_value<2, 15>(x.bits);
}

// Two numbers, the first in the low byte.
template <typename T>
HYDRAC_FN std::uint16_t f8_pair(float first, float second);
template <>
HYDRAC_FN std::uint16_t f8_pair<f8e4m3>(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return static_cast<std::uint16_t>(detail::f8_bits<3, 7, 0x7E>(first) | detail::f8_bits<3, 7, 0x7E>(second)
                                                                             << 8);
#endif
}
template <>
HYDRAC_FN std::uint16_t f8_pair<f8e5m2>(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return static_cast<std::uint16_t>(detail::f8_bits<2, 15, 0x7B>(first) | detail::f8_bits<2, 15, 0x7B>(second)
                                                                              << 8);
#endif
}

template <>
HYDRAC_FN f8e4m3 from_float<f8e4m3>(float x) {
  return {static_cast<std::uint8_t>(f8_pair<f8e4m3>(x, 0.0f))};
}
template <>
HYDRAC_FN f8e5m2 from_float<f8e5m2>(float x) {
  return {static_cast<std::uint8_t>(f8_pair<f8e5m2>(x, 0.0f))};
}

// x as memory of type T would give it back.
template <typename T>
HYDRAC_FN float round_to(float x) {
  return to_float(from_float<T>(x));
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// In the upper half of a word a bf16 is a float already. Rounding a pair is one instruction of the arithmetic
// units; rounding a single number is one of a unit with an eighth of their rate. Seen on an H200; for sm_86
// and sm_89 the assembler then spills registers of norms with dropout.
template <>
HYDRAC_FN float round_to<bf16>(float x) {
  std::uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(x), "f"(0.0f));
  return float_from_bits(bits);
}
#endif

// N consecutive elements that move in one access; N * sizeof(T) is at most 16 and a power of two.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vector {
  T at[N];
};

template <int N, typename T>
HYDRAC_FN Vector<T, N> load(const T* from) {
  return *reinterpret_cast<const Vector<T, N>*>(from);
}
template <typename T, int N>
HYDRAC_FN void store(T* to, const Vector<T, N>& vector) {
  *reinterpret_cast<Vector<T, N>*>(to) = vector;
}

}  // namespace hydrac
