// The matmuls of one warp with float multiply-adds, for float32 storage and for chips without a
// fitting mma. Nothing is rounded but what memory holds.
#pragma once
#include "cuda/attention/arguments.h"
#include "cuda/attention/fragment.cuh"
#include "cuda/ptx.cuh"

namespace hydrac {

template <class Storage_, int row_tiles, int head_dim>
struct PlainMatmul {
  using Storage = Storage_;
  static constexpr bool is_async = false;

  template <int K>
  using Weights = Fragment<row_tiles, K>;

  template <int rows>
  static __device__ __forceinline__ std::uint32_t offset(int row, int chunk) {
    return row * kRowBytes + chunk * 16;
  }

  template <int K>
  static __device__ __forceinline__ void round(Fragment<row_tiles, K>& weights,
                                               const Fragment<row_tiles, K>& c) {
    weights = c;
  }

  template <int N>
  static __device__ __forceinline__ void scores(Fragment<row_tiles, N>& c, const Place& place,
                                                std::uint32_t a, std::uint32_t b) {
    c.clear();
#pragma unroll 2
    for (int k = 0; k < head_dim; k += 4) {
      float rows[row_tiles][2][4];
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) read(rows[m][half], a, place.row<row_tiles>(m, half), k);
      }
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
        float columns[2][4];
        read(columns[0], b, place.column(n, 0), k);
        read(columns[1], b, place.column(n, 1), k);
#pragma unroll
        for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
              c.at[m][n][e] = fma(rows[m][e / 2][i], columns[e % 2][i], c.at[m][n][e]);
          }
        }
      }
    }
  }

  // The quad that has a row's sums also has its weights, a quarter each: they go round by shuffles.
  template <int K, int N>
  static __device__ __forceinline__ void accumulate(Fragment<row_tiles, N>& c, const Place& place,
                                                    const Fragment<row_tiles, K>& weights, std::uint32_t b,
                                                    bool, int first_column = 0) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      float row[row_tiles][2];
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          row[m][half] = __shfl_sync(0xFFFFFFFFu, weights.at[m][k / 8][half * 2 + k % 2], k % 8 / 2, 4);
        }
      }
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
        const int column = first_column + place.column(n, 0);
        float pair[2];
        read(pair, b, k, column);
#pragma unroll
        for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
          for (int e = 0; e < 4; ++e) c.at[m][n][e] = fma(row[m][e / 2], pair[e % 2], c.at[m][n][e]);
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
  static constexpr int kRowBytes = attention_row_bytes(/*is_swizzled=*/false, head_dim, sizeof(Storage));

  template <int count>
  static __device__ __forceinline__ void read(float (&to)[count], std::uint32_t tile, int row, int column) {
    const auto words = ptx::load_shared<count * sizeof(Storage) / 4>(
        tile + row * kRowBytes + column * static_cast<int>(sizeof(Storage)));
    const auto from = __builtin_bit_cast(Vector<Storage, count>, words);
#pragma unroll
    for (int i = 0; i < count; ++i) to[i] = to_float(from.at[i]);
  }
};

}  // namespace hydrac
