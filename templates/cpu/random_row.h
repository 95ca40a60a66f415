// A row of the generator's runs at once. Compilers make a poor job of 32 x 32 -> 64 bit products in a loop
// (GCC 12: two to three times slower than this), and dropout on attention is mostly made of them.
#pragma once
#include <cstdint>

#include "hydrac/random.h"

namespace hydrac::simd {
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

// {words[0][i], words[1][i]} = philox2x32(x + i * step, y, key). `count` is a multiple of 8, or of 4 without
// AVX-512.
template <int count>
inline void philox_row(std::uint32_t x, std::uint32_t step, std::uint32_t y, std::uint32_t key,
                       std::uint32_t (&words)[2][count]) {
  using namespace detail;
  static_assert(count % kWords == 0);
  constexpr int vectors = count / kWords;
  const Words multiplier = Words{} + 0xD256D193u;
  alignas(sizeof(Words)) std::uint64_t counters[count];
#pragma omp simd
  for (int i = 0; i < count; ++i) counters[i] = x + static_cast<std::uint32_t>(i) * step;
  Words xs[vectors], ys[vectors], round_key = Words{} + key;
  for (int v = 0; v < vectors; ++v) {
    __builtin_memcpy(&xs[v], counters + v * kWords, sizeof(Words));
    ys[v] = Words{} + y;
  }
  // As philox2x32, on the lower half of each word; what the upper halves hold is never looked at.
  for (int round = 0; round < 10; ++round) {
    for (int v = 0; v < vectors; ++v) {
      const Words product = multiply_low_halves(xs[v], multiplier);
      xs[v] = (product >> 32) ^ round_key ^ ys[v];
      ys[v] = product;
    }
    round_key += 0x9E3779B9u;
  }
  for (int v = 0; v < vectors; ++v) {
    for (int word = 0; word < kWords; ++word) {
      words[0][v * kWords + word] = static_cast<std::uint32_t>(xs[v][word]);
      words[1][v * kWords + word] = static_cast<std::uint32_t>(ys[v][word]);
    }
  }
}

}  // namespace hydrac::simd
