// The softmax of a fragment of scores, between two matmuls.
#pragma once
#include "cuda/attention/fragment.cuh"
#include "cuda/ptx.cuh"

namespace hydrac {

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

}  // namespace hydrac
