// What matmuls of 16-bit numbers take from registers.
#pragma once
#include "cuda/attention/fragment.cuh"
#include "cuda/ptx.cuh"

namespace hydrac::cuda {

// The left side of a matmul, made of the sums of another.
template <class Storage, int row_tiles>
struct RoundedFragments {
  // A fragment [rows, K] rounded to Storage.
  template <int K>
  struct Weights {
    std::uint32_t at[row_tiles][K / 16][4];
  };

  // From sums to what a matmul takes.
  template <int K>
  static __device__ __forceinline__ void round(Weights<K>& weights, const Fragment<row_tiles, K>& c) {
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (int k = 0; k < K / 16; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int n = 2 * k + i / 2, e = i % 2 * 2;
          weights.at[m][k][i] = ptx::pack<Storage>(c.at[m][n][e], c.at[m][n][e + 1]);
        }
      }
    }
  }
};

}  // namespace hydrac::cuda
