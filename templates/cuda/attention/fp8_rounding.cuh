// From 16 bits, or sums, to words of 8.
#pragma once
#include "cuda/attention/fp8_tiles.h"
#include "cuda/attention/fragment.cuh"
#include "cuda/types.cuh"

namespace hydrac {

// Eight columns of a token; zeros from token `valid` on.
template <class Storage>
__device__ __forceinline__ Vector<Storage, 8> load_f8_chunk(const Storage* from, std::int64_t token_stride,
                                                            int valid, int token, int chunk) {
  if (token >= valid) return Vector<Storage, 8>{};
  return load<8>(from + token * token_stride + chunk * 8);
}

template <class Storage>
__device__ __forceinline__ float largest_of(const Vector<Storage, 8>& x, float largest) {
#pragma unroll
  for (int e = 0; e < 8; ++e) largest = fmaxf(largest, abs(to_float(x.at[e])));
  return largest;
}

// Four numbers, the first in the lowest byte.
__device__ __forceinline__ std::uint32_t f8_word(float a, float b, float c, float d) {
  return f8_pair<f8e4m3>(a, b) | static_cast<std::uint32_t>(f8_pair<f8e4m3>(c, d)) << 16;
}

// Eight numbers times `by`.
template <class Storage>
__device__ __forceinline__ Vector<std::uint32_t, 2> f8_words(const Vector<Storage, 8>& x, float by) {
  const auto at = [&](int e) { return to_float(x.at[e]) * by; };
  return {{f8_word(at(0), at(1), at(2), at(3)), f8_word(at(4), at(5), at(6), at(7))}};
}

// Sums as the left side of a matmul of 8 bits whose right side has its rows in the order of fp8_token_at.
template <int N>
__device__ __forceinline__ void round_to_f8(std::uint32_t (&to)[N / 32][4], const Fragment<1, N>& c) {
#pragma unroll
  for (int k = 0; k < N / 32; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = 4 * k + i / 2 * 2, e = i % 2 * 2;
      to[k][i] = f8_word(c.at[0][n][e], c.at[0][n][e + 1], c.at[0][n + 1][e], c.at[0][n + 1][e + 1]);
    }
  }
}

}  // namespace hydrac
