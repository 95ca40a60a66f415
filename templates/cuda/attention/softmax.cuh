// What happens to a fragment of scores between two matmuls: masks, and the softmax.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/attention/fragment.cuh"
#include "cuda/ptx.cuh"
#include "hydrac/random.h"

namespace hydrac::cuda {

constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147181f;
constexpr float kInfinity = __builtin_bit_cast(float, 0x7F800000u);

// Sum and maximum over the four threads that share a row.
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}

// From matmuls of queries and keys to what Scores::factor() multiplies.
template <class Scores, int row_tiles, int N>
__device__ __forceinline__ void score_matmuls(Fragment<row_tiles, N>& c, const SequenceShape& shape) {
  if constexpr (!Scores::is_linear) {
    for_elements<row_tiles, N>(
        [&](int m, int n, int e) { c.at[m][n][e] = Scores::value(shape, c.at[m][n][e]); });
  }
}

// Gives the elements of keys that their query may not see `value`, and those of keys past the sequence. Query
// and key of row 0 and column 0 are given; rows are keys if `transposed`.
template <class Mask, bool transposed, int row_tiles, int N>
__device__ __forceinline__ void mask(Fragment<row_tiles, N>& c, const Place& place, int first_row,
                                     int first_column, const SequenceShape& shape, float value) {
  for_elements<row_tiles, N>([&](int m, int n, int e) {
    const int row = first_row + place.row<row_tiles>(m, e / 2);
    const int column = first_column + place.column(n, e);
    const int query = transposed ? column : row, key = transposed ? row : column;
    if (key >= shape.tokens || !Mask::sees(shape, query, key)) c.at[m][n][e] = value;
  });
}

// The same of a sequence of documents, whose rows look their range up once. Rows past the sequence are not
// stored.
template <class Mask, bool transposed, int row_tiles, int N>
__device__ __forceinline__ void mask(Fragment<row_tiles, N>& c, const Place& place, int first_row,
                                     int first_column, const PackedShape& shape, float value) {
#pragma unroll
  for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + place.row<row_tiles>(m, half);
      const TokenRange seen = transposed ? Mask::queries_of(shape, row) : Mask::keys_of(shape, row);
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          const int column = first_column + place.column(n, e);
          if (column < seen.first || column >= seen.end) c.at[m][n][e] = value;
        }
      }
    }
  }
}

// Whether dropout keeps the element of a head whose query 0 and key 0 have index `head_index`.
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

// Running shift and sum of each row, of 2^(scale2 * score - shift) (Milakov, Gimelshein: Online normalizer
// calculation for softmax; 2018). The shift need not be the maximum: it follows only when the maximum passes
// it by kSlack, so that earlier sums are rarely rescaled (FlashAttention-4's idea). Sums stay each thread's
// own until finish().
template <int row_tiles, bool rows_begin_late>
struct RunningSoftmax {
  static constexpr float kSlack = 8.0f;  // probabilities stay below 2^8, which float16 holds too

  float shift[row_tiles][2];
  float sum[row_tiles][2];

  __device__ __forceinline__ RunningSoftmax() {
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) shift[m][half] = -kInfinity, sum[m][half] = 0.0f;
    }
  }

  // Scores become probabilities but for the sum. Returns whether rescale, which sums of earlier columns
  // shrink by, is not all ones for the warp.
  template <int N>
  __device__ __forceinline__ bool step(Fragment<row_tiles, N>& c, float scale2,
                                       float (&rescale)[row_tiles][2]) {
    bool moved = false;
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = c.at[m][0][2 * half];
#pragma unroll
        for (int n = 0; n < N / 8; ++n)
          top = fmaxf(top, fmaxf(c.at[m][n][2 * half], c.at[m][n][2 * half + 1]));
        top = quad_max(top) * scale2;
        const bool moves = top > shift[m][half] + kSlack;
        rescale[m][half] = moves ? ptx::exp2(shift[m][half] - top) : 1.0f;
        shift[m][half] = moves ? top : shift[m][half];
        moved = moved || moves;
        // A row that has seen no key yet: all its scores are -infinity, and so is its shift.
        const bool is_empty = rows_begin_late && shift[m][half] == -kInfinity;  // all was masked so far
        const float base = is_empty ? 0.0f : shift[m][half];
        float total[2] = {};
#pragma unroll
        for (int n = 0; n < N / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& x = c.at[m][n][2 * half + e];
            x = ptx::exp2(fma(x, scale2, -base));
            total[e] += x;
          }
        }
        sum[m][half] = fma(sum[m][half], rescale[m][half], total[0] + total[1]);
      }
    }
    return __any_sync(0xFFFFFFFFu, moved);
  }

  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) sum[m][half] = quad_sum(sum[m][half]);
    }
  }
};

}  // namespace hydrac::cuda
