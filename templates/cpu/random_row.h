// random_bits of a row of elements at once. Compilers make a poor job of 32 x 32 -> 64 bit products in a loop
// (GCC 12: two to three times slower than this), and dropout on attention is mostly made of them.
#pragma once
#include <cstdint>

#include "hydrac/random.h"

namespace hydrac::cpu {
namespace detail {

#if defined(__AVX512F__)
constexpr int kWords = 8;  // 64-bit words in a vector
#elif defined(__AVX2__)
constexpr int kWords = 4;
#else
constexpr int kWords = 2;
#endif

typedef std::uint64_t Words __attribute__((vector_size(kWords * sizeof(std::uint64_t))));

// The products of the lower halves of each pair of words.
inline Words multiply_low_halves(Words a, Words b) {
#if defined(__AVX2__)
  Words product;
  asm("vpmuludq %2, %1, %0" : "=v"(product) : "v"(a), "v"(b));
  return product;
#else
  return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#endif
}

}  // namespace detail

// bits[i] = random_bits(key, first + i * step). `count` is a multiple of 8, or of 4 without AVX-512.
template <int count>
inline void random_row(std::uint32_t key, std::uint64_t first, std::uint64_t step,
                       std::uint32_t (&bits)[count]) {
  using namespace detail;
  static_assert(count % kWords == 0);
  constexpr int vectors = count / kWords;
  const Words multiplier = Words{} + 0xD256D193u;
  alignas(sizeof(Words)) std::uint64_t indices[count];
#pragma omp simd
  for (int i = 0; i < count; ++i) indices[i] = first + static_cast<std::uint64_t>(i) * step;
  Words x[vectors], y[vectors], round_key = Words{} + key;
  for (int v = 0; v < vectors; ++v) {
    __builtin_memcpy(&x[v], indices + v * kWords, sizeof(Words));
    y[v] = x[v] >> 32;
  }
  // As philox2x32, on the lower half of each word; what the upper halves hold is never looked at.
  for (int round = 0; round < 10; ++round) {
    for (int v = 0; v < vectors; ++v) {
      const Words product = multiply_low_halves(x[v], multiplier);
      x[v] = (product >> 32) ^ round_key ^ y[v];
      y[v] = product;
    }
    round_key += 0x9E3779B9u;
  }
  for (int v = 0; v < vectors; ++v) {
    for (int word = 0; word < kWords; ++word)
      bits[v * kWords + word] = static_cast<std::uint32_t>(x[v][word]);
  }
}

}  // namespace hydrac::cpu
