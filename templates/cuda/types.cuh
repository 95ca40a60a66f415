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

// x as memory of type T would give it back.
template <typename T>
HYDRAC_FN float round_to(float x) {
  return to_float(from_float<T>(x));
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// In the upper half of a word a bf16 is a float already. Rounding a pair takes one instruction of the
// arithmetic units, a single number one of a unit with an eighth of their rate. Seen on an H200; for sm_86
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
