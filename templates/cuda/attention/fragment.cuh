// The part of a matmul that a thread has in registers, and where it lies in the block's tile.
#pragma once
#include "cuda/types.cuh"

namespace hydrac {

// A matmul's result [rows, N] in mma.sync's register layout. A warp holds row_tiles times 16 rows. In each
// 16x8 block element e of a thread is row lane / 4 + 8 * (e / 2), column 2 * (lane % 4) + e % 2.
template <int row_tiles, int N>
struct Fragment {
  float at[row_tiles][N / 8][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) at[m][n][e] = 0.0f;
      }
    }
  }

  __device__ __forceinline__ void scale_rows(const float (&factor)[row_tiles][2]) {
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) at[m][n][e] *= factor[m][e / 2];
      }
    }
  }
};

// Places of a thread's elements in its block's tile.
struct Place {
  int warp, lane;

  __device__ __forceinline__ Place() {
    // The shuffle tells the compiler that the whole warp agrees, so that what follows from it stays uniform.
    warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
    lane = static_cast<int>(threadIdx.x) % 32;
  }
  template <int row_tiles>
  __device__ __forceinline__ int row(int m, int half) const {
    return (warp * row_tiles + m) * 16 + lane / 4 + 8 * half;
  }
  __device__ __forceinline__ int column(int n, int e) const { return n * 8 + lane % 4 * 2 + e % 2; }
};

// Calls visit(m, half, row) for each row that a thread has elements of: those with e / 2 == half. Unrolled.
template <int row_tiles, class Visit>
__device__ __forceinline__ void for_rows(const Place& place, Visit visit) {
#pragma unroll
  for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) visit(m, half, place.row<row_tiles>(m, half));
  }
}

// Calls visit(m, n, e) for each element of a fragment, with constants once unrolled.
template <int row_tiles, int N, class Visit>
__device__ __forceinline__ void for_elements(Visit visit) {
#pragma unroll
  for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) visit(m, n, e);
    }
  }
}

}  // namespace hydrac
