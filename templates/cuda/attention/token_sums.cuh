// Sums over the rows of what a warp holds as a rounded fragment, made by the matrix unit.
#pragma once
#include "cuda/ptx.cuh"

namespace hydrac {

// Sums of 64 columns. A thread has columns 2 * lane and 2 * lane + 1.
template <class Storage>
struct TokenSums {
  float at[2] = {};

  // Adds the warp's 16 rows [4][4]: RoundedFragments::Weights<64>. Each eight columns are multiplied from the
  // left by a matrix that has ones in a row of their own, so that one matmul's sums take all of them.
  __device__ __forceinline__ void add(const std::uint32_t (&rows)[4][4], int lane) {
    float c[4] = {at[0], at[1], 0.0f, 0.0f};
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const std::uint32_t ones = lane / 4 == n ? ptx::pack<Storage>(1.0f, 1.0f) : 0,
                          left[4] = {ones, 0, ones, 0};
      ptx::mma<Storage>(c, left, ptx::transpose_matrix(rows[n / 2][n % 2 * 2]),
                        ptx::transpose_matrix(rows[n / 2][n % 2 * 2 + 1]));
    }
    at[0] = c[0], at[1] = c[1];
  }

  // Stores the sums, to [64], and begins again.
  __device__ __forceinline__ void take(float* to, int lane) {
    store(to + 2 * lane, Vector<float, 2>{{at[0], at[1]}});
    at[0] = at[1] = 0.0f;
  }
};

}  // namespace hydrac
