// The matmuls of one warp with mma.sync: operands from shared memory through ldmatrix, sums in
// registers.
#pragma once
#include "cuda/attention/arguments.h"
#include "cuda/attention/rounded_fragment.cuh"
#include "cuda/ptx.cuh"

namespace hydrac {

// A matmul is a policy of the kernels. Tiles are token rows in shared memory, padded and placed by offset().
// clear() readies sums for a first accumulate() with `add` false.
template <class Storage_, int row_tiles, int head_dim>
struct MmaMatmul {
  using Storage = Storage_;
  static constexpr bool is_async = false;

  template <int K>
  using Weights = RoundedFragment<row_tiles, K>;

  template <int K>
  static __device__ __forceinline__ void round(RoundedFragment<row_tiles, K>& weights,
                                               const Fragment<row_tiles, K>& c) {
    round_fragment<Storage>(weights, c);
  }

  // Byte offset of 16-byte chunk `chunk` of row `row`.
  template <int rows>
  static __device__ __forceinline__ std::uint32_t offset(int row, int chunk) {
    return row * kRowBytes + chunk * 16;
  }

  // c = a . b^T over the head dimension: this warp's rows of tile a, all N rows of tile b.
  template <int N>
  static __device__ __forceinline__ void scores(Fragment<row_tiles, N>& c, const Place& place,
                                                std::uint32_t a, std::uint32_t b) {
    static_assert(N % 16 == 0);
    const int lane = place.lane;
    const std::uint32_t a_from = a + offset<0>(place.warp * row_tiles * 16 + lane % 16, lane / 16);
    const std::uint32_t b_from = b + offset<N>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
    c.clear();
#pragma unroll
    for (int k = 0; k < kPaddedDim / 16; ++k) {
      std::uint32_t rows[row_tiles][4];
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) ptx::ldmatrix(rows[m], a_from + offset<0>(m * 16, 2 * k));
#pragma unroll
      for (int n = 0; n < N / 16; ++n) {
        std::uint32_t columns[4];
        ptx::ldmatrix(columns, b_from + offset<N>(n * 16, 2 * k));
#pragma unroll
        for (int m = 0; m < row_tiles; ++m) {
          ptx::mma<Storage>(c.at[m][2 * n], rows[m], columns[0], columns[1]);
          ptx::mma<Storage>(c.at[m][2 * n + 1], rows[m], columns[2], columns[3]);
        }
      }
    }
  }

  // c += weights . b[:, first_column ..]: K rows of tile b, N columns.
  template <int K, int N>
  static __device__ __forceinline__ void accumulate(Fragment<row_tiles, N>& c, const Place& place,
                                                    const RoundedFragment<row_tiles, K>& weights,
                                                    std::uint32_t b, bool, int first_column = 0) {
    static_assert(K % 16 == 0 && N % 16 == 0);
    const int lane = place.lane;
    const std::uint32_t b_from =
        b + offset<K>(lane % 16, lane / 16) + first_column * static_cast<int>(sizeof(Storage));
#pragma unroll
    for (int k = 0; k < K / 16; ++k) {
#pragma unroll
      for (int n = 0; n < N / 16; ++n) {
        std::uint32_t columns[4];
        ptx::ldmatrix_transposed(columns, b_from + offset<K>(k * 16, 2 * n));
#pragma unroll
        for (int m = 0; m < row_tiles; ++m) {
          ptx::mma<Storage>(c.at[m][2 * n], weights.at[m][k], columns[0], columns[1]);
          ptx::mma<Storage>(c.at[m][2 * n + 1], weights.at[m][k], columns[2], columns[3]);
        }
      }
    }
  }

  template <int N>
  static __device__ __forceinline__ void clear(Fragment<row_tiles, N>& sums) {
    sums.clear();
  }

  static __device__ __forceinline__ void publish_tiles() {}
  static __device__ __forceinline__ void begin() {}
  static __device__ __forceinline__ void commit() {}
  // A matmul is finished where it stands.
  static __device__ __forceinline__ void wait_for_all() {}
  static __device__ __forceinline__ void wait_for_all_but_last() {}
  template <int N>
  static __device__ __forceinline__ void fence_operands(Fragment<row_tiles, N>&) {}

 private:
  static constexpr int kPaddedDim = padded_head_dim(head_dim);
  static constexpr int kRowBytes = attention_row_bytes(/*is_swizzled=*/false, head_dim, sizeof(Storage));
};

}  // namespace hydrac
