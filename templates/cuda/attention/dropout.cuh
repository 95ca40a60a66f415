// Dropout on a fragment of probabilities.
#pragma once
#include "cuda/attention/arguments.h"
#include "cuda/attention/fragment.cuh"
#include "hydrac/random.h"

namespace hydrac {

// The index that dropout gives to query 0, key 0 of the `row`th head of the batch.
__device__ __forceinline__ std::uint64_t dropout_base(const SequenceShape& shape, int row) {
  return score_index(row, shape.tokens, 0, 0);
}

// True if dropout keeps the element of a head whose query 0 and key 0 have index `head_index`.
__device__ __forceinline__ bool kept(const AttentionDropout& dropout, std::uint64_t head_index, int tokens,
                                     int query, int key) {
  return random_16_bits(dropout.key, head_index + score_index(0, tokens, query, key)) >= dropout.threshold;
}

// Calls visit(m, n, e, kept) for each element of a fragment with what kept() says of it, in groups of four
// that share their random bits. Query and key of row 0 and column 0 are given, multiples of N or 16; rows are
// keys if `transposed`.
template <bool transposed, int row_tiles, int N, class Visit>
__device__ __forceinline__ void for_kept(const AttentionDropout& dropout, std::uint64_t head_index,
                                         const Place& place, int first_row, int first_column, int tokens,
                                         Visit visit) {
  if constexpr (N % 16 == 0) {
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (int n = 0; n < N / 8; n += 2) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int row = first_row + place.row<row_tiles>(m, 0), column = first_column + place.column(n, e);
          const std::uint64_t first =
              head_index + score_index(0, tokens, transposed ? column : row, transposed ? row : column);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int half = transposed ? i % 2 : i / 2, right = transposed ? i / 2 : i % 2;
            visit(m, n + right, 2 * half + e, random_16_bits(dropout.key, first, i) >= dropout.threshold);
          }
        }
      }
    }
  } else {
    for_elements<row_tiles, N>([&](int m, int n, int e) {
      const int row = first_row + place.row<row_tiles>(m, e / 2), column = first_column + place.column(n, e);
      visit(m, n, e, kept(dropout, head_index, tokens, transposed ? column : row, transposed ? row : column));
    });
  }
}

}  // namespace hydrac
