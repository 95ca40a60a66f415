// Rows of q, k, v between device memory, shared memory and registers.
#pragma once
#include "cuda/attention/arguments.h"
#include "cuda/attention/fragment.cuh"
#include "cuda/ptx.cuh"

namespace hydrac {

// Copies tiles of `rows` token rows to shared memory, by a block of `threads` threads, where Matmul wants
// them. Rows from valid_rows on, and the padding of the head dimension, become zero.
template <class Matmul, int rows, int head_dim, int threads>
class RowLoader {
 public:
  using Storage = typename Matmul::Storage;

  __device__ __forceinline__ explicit RowLoader(std::int64_t token_stride)
      : token_stride_(token_stride),
        own_(static_cast<int>(threadIdx.x) / kChunks * token_stride + threadIdx.x % kChunks * kElements),
        to_(Matmul::template offset<rows>(static_cast<int>(threadIdx.x) / kChunks, threadIdx.x % kChunks)) {}

  // Starts the copy; ptx::wait_copies ends it.
  __device__ __forceinline__ void start(std::uint32_t tile, const Storage* from, int valid_rows) const {
    if (kEven && valid_rows >= rows) {
      from += own_;
#pragma unroll
      for (int row = 0; row < rows; row += kRowsAtOnce) {
        ptx::copy_to_shared<16>(tile + to_ + Matmul::template offset<rows>(row, 0), from, true);
        from += kRowsAtOnce * token_stride_;
      }
    } else {
      start_with_zeros(tile, from, valid_rows);
    }
  }

 private:
  static constexpr int kElements = 16 / sizeof(Storage);
  static constexpr int kPaddedDim = padded_head_dim(head_dim);
  static constexpr int kChunks = kPaddedDim / kElements;
  static constexpr int kRowsAtOnce = threads / kChunks;
  // True if all threads copy whole rows in step, so that addresses grow by constants.
  static constexpr bool kEven = head_dim == kPaddedDim && threads % kChunks == 0 && rows % kRowsAtOnce == 0;

  __device__ __forceinline__ void start_with_zeros(std::uint32_t tile, const Storage* from,
                                                   int valid_rows) const {
#pragma unroll 2
    for (int index = static_cast<int>(threadIdx.x); index < rows * kChunks; index += threads) {
      const int row = index / kChunks, chunk = index % kChunks;
      const bool valid = row < valid_rows && (head_dim == kPaddedDim || chunk * kElements < head_dim);
      ptx::copy_to_shared<16>(tile + Matmul::template offset<rows>(row, chunk),
                              valid ? from + row * token_stride_ + chunk * kElements : from, valid);
    }
  }

  std::int64_t token_stride_;
  std::int64_t own_;  // elements from a tile's start to this thread's first chunk
  std::uint32_t to_;
};

// A warp starts the copy of `rows` rows of 128 bytes to a swizzled tile. Rows from valid_rows on become zero.
template <int rows, class Storage>
__device__ __forceinline__ void start_rows(std::uint32_t to, const Storage* from, std::int64_t token_stride,
                                           int valid_rows) {
  const int row = static_cast<int>(threadIdx.x) % 32 / 8, chunk = static_cast<int>(threadIdx.x) % 8;
  const std::uint32_t even = to + row * 128 + (chunk ^ row) * 16, odd = (even ^ 64) + 512;
  from += row * token_stride + chunk * 8;
#pragma unroll 2
  for (int first = 0; first < rows; first += 8) {
    ptx::copy_to_shared<16>(even + first * 128, from, first + row < valid_rows);
    from += 4 * token_stride;  // where nothing is valid, nothing is read
    ptx::copy_to_shared<16>(odd + first * 128, from, first + row + 4 < valid_rows);
    from += 4 * token_stride;
  }
}

// Each thread of a quad has one row of a 4x4 matrix and gets one column of it.
__device__ __forceinline__ void transpose_quad(std::uint32_t (&x)[4], int lane) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & bit) != 0) continue;
      const std::uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, upper ? x[i] : x[i | bit], bit);
      if (upper) {
        x[i] = other;
      } else {
        x[i | bit] = other;
      }
    }
  }
}

// to[row][first_column ..] = rounded c * factor[m][half], for the rows before valid_rows. Quads exchange
// elements so that each thread stores 16 consecutive bytes.
template <int head_dim, class Storage, int row_tiles, int N>
__device__ __forceinline__ void store_rows(Storage* to, std::int64_t token_stride, int valid_rows,
                                           const Place& place, int first_column,
                                           const Fragment<row_tiles, N>& c,
                                           const float (&factor)[row_tiles][2]) {
#pragma unroll
  for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = place.row<row_tiles>(m, half);
      Storage* row_to = to + row * token_stride;
      const float f = factor[m][half];
      if constexpr (sizeof(Storage) == 2) {
        constexpr int blocks = N / 8;
#pragma unroll
        for (int n = 0; n < blocks; n += 4) {
          std::uint32_t x[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int from = blocks % 4 == 0 ? n + i : (n + i) % blocks;  // past the end anything
            x[i] = ptx::pack<Storage>(c.at[m][from][2 * half] * f, c.at[m][from][2 * half + 1] * f);
          }
          transpose_quad(x, place.lane);
          const int block = n + place.lane % 4;
          const int column = first_column + block * 8;
          if (row < valid_rows && (blocks % 4 == 0 || block < blocks) && column < head_dim) {
            ptx::store_to_memory(row_to + column, x);
          }
        }
      } else {
#pragma unroll
        for (int n = 0; n < N / 8; ++n) {
          const int column = first_column + place.column(n, 0);
          if (row < valid_rows && column < head_dim) {
            store(row_to + column,
                  Vector<Storage, 2>{{c.at[m][n][2 * half] * f, c.at[m][n][2 * half + 1] * f}});
          }
        }
      }
    }
  }
}

// The same with one factor for all rows.
template <int head_dim, class Storage, int row_tiles, int N>
__device__ __forceinline__ void store_rows(Storage* to, std::int64_t token_stride, int valid_rows,
                                           const Place& place, int first_column,
                                           const Fragment<row_tiles, N>& c, float factor) {
  float factors[row_tiles][2];
  for_rows<row_tiles>(place, [&](int m, int half, int) { factors[m][half] = factor; });
  store_rows<head_dim>(to, token_stride, valid_rows, place, first_column, c, factors);
}

// Stores a warpgroup's d_s [64 keys, queries], rounded, as a panel with the queries as rows. `in_group` is
// the thread's place in the warpgroup.
template <int K>
__device__ __forceinline__ void store_transposed(std::uint32_t panel, const Place& in_group,
                                                 const std::uint32_t (&d_scores)[K][4]) {
  const int row = in_group.lane / 16 * 8 + in_group.lane % 8,
            chunk = in_group.warp * 2 + in_group.lane / 8 % 2;
  const std::uint32_t to = panel + row * 128 + (chunk ^ in_group.lane % 8) * 16;
#pragma unroll
  for (int k = 0; k < K; ++k) ptx::stmatrix_transposed(to + k * (16 * 128), d_scores[k]);
}

}  // namespace hydrac
