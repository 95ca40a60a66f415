// The softmax between two matmuls of 8 bits.
#pragma once
#include "cuda/attention/fp8_tiles.h"
#include "cuda/attention/softmax.cuh"

namespace hydrac {

// As RunningSoftmax, of scores whose rows have a factor and whose tiles have scales. A probability p of a
// tile becomes p * 2^log2_value, so that sums of tiles add up as they are, and one running maximum serves
// both; at that maximum it is 2^kTop, from which 8 bits reach far down.
template <bool rows_begin_late>
struct Fp8Softmax {
  static constexpr float kSlack = 3.0f;
  static constexpr float kTop = 5.8f;  // 2^(kTop + kSlack) is no larger than kFp8Largest

  float shift[2], sum[2];

  __device__ __forceinline__ Fp8Softmax() {
#pragma unroll
    for (int half = 0; half < 2; ++half) shift[half] = -kInfinity, sum[half] = 0.0f;
  }

  // Scores become probabilities but for the sum. Returns whether rescale, which sums of earlier columns
  // shrink by, is not all ones for the warp.
  template <int N>
  __device__ __forceinline__ bool step(Fragment<1, N>& c, const float (&factor)[2],
                                       const Fp8TileScales& scales, float (&rescale)[1][2]) {
    bool moved = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = c.at[0][0][2 * half];
#pragma unroll
      for (int n = 0; n < N / 8; ++n) top = fmaxf(top, fmaxf(c.at[0][n][2 * half], c.at[0][n][2 * half + 1]));
      const float by = factor[half] * scales.key;
      top = fma(quad_max(top), by, scales.log2_value);
      const bool moves = top > shift[half] + kSlack;
      rescale[0][half] = moves ? ptx::exp2(shift[half] - top) : 1.0f;
      shift[half] = moves ? top : shift[half];
      moved = moved || moves;
      const bool is_empty = rows_begin_late && shift[half] == -kInfinity;  // all was masked so far
      const float base = is_empty ? 0.0f : shift[half] - scales.log2_value - kTop;
      float total[2] = {};
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = c.at[0][n][2 * half + e];
          x = ptx::exp2(fma(x, by, -base));
          total[e] += x;
        }
      }
      sum[half] = fma(sum[half], rescale[0][half], (total[0] + total[1]) * scales.inverse_value);
    }
    return __any_sync(0xFFFFFFFFu, moved);
  }

  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int half = 0; half < 2; ++half) sum[half] = quad_sum(sum[half]);
  }

  // The log of the softmax's denominator.
  __device__ __forceinline__ float log_sum(int half) const {
    return (shift[half] - kTop) * kLn2 + log(sum[half]);
  }
};

}  // namespace hydrac
