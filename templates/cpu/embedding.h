// Embedding lookup and its gradient. The gradient is a scatter, summed in row order without atomics, so its
// bits do not depend on the number of threads.
#pragma once
#include <cstdint>

namespace hydrac::cpu {

// out[r, c] = table[ids[r], c] for r < rows, c < width. ids int32 [rows], table [vocabulary, width], out
// [rows, width], dense. Ids are not checked here: the data pipeline refuses one outside [0, vocabulary).
inline void embedding_forward(const std::int32_t* ids, const float* table, float* out, std::int64_t rows,
                              std::int64_t width) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = table + ids[r] * width;
    float* to = out + r * width;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) to[c] = from[c];
  }
}

// The gradient of a table that nothing was added to yet.
inline void zero_gradient(float* d_table, std::int64_t elements) {
#pragma omp simd
  for (std::int64_t i = 0; i < elements; ++i) d_table[i] = 0;
}

// d_table[ids[r], c] += d_out[r, c], for r = 0, 1, ... in this order. d_out [rows, width], d_table
// [vocabulary, width], dense; d_table is added to, so it must hold zeros or an earlier gradient.
// Each thread owns a range of columns and walks all rows: no two threads write the same element.
inline void embedding_backward(const std::int32_t* ids, const float* d_out, float* d_table, std::int64_t rows,
                               std::int64_t width) {
  constexpr std::int64_t line = 16;  // floats in a cache line, so that neighbours do not share one
  // Wide enough that a row's visit is worth its address, narrow enough to feed many threads.
  constexpr std::int64_t block = 2 * line;
#pragma omp parallel for schedule(static)
  for (std::int64_t begin = 0; begin < width; begin += block) {
    const std::int64_t end = begin + block < width ? begin + block : width;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* from = d_out + r * width;
      float* to = d_table + ids[r] * width;
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) to[c] += from[c];
    }
  }
}

}  // namespace hydrac::cpu
