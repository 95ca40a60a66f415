// Register operands of matmuls of 16-bit numbers.
#pragma once
#include "cuda/attention/fragment.cuh"
#include "cuda/ptx.cuh"

namespace hydrac {

// The left side of a matmul, made of the sums of another: a fragment [rows, K] in 16 bits, two elements a
// word.
template <int row_tiles, int K>
struct RoundedFragment {
  std::uint32_t at[row_tiles][K / 16][4];
};

// From sums to what a matmul takes.
template <class Storage, int row_tiles, int K>
__device__ __forceinline__ void round_fragment(RoundedFragment<row_tiles, K>& to,
                                               const Fragment<row_tiles, K>& c) {
#pragma unroll
  for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
    for (int k = 0; k < K / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int n = 2 * k + i / 2, e = i % 2 * 2;
        to.at[m][k][i] = ptx::pack<Storage>(c.at[m][n][e], c.at[m][n][e + 1]);
      }
    }
  }
}

}  // namespace hydrac
