// Matmuls of experts on any GPU and for any type: y [rows,n] = x . b, rows from offsets[e] to offsets[e + 1]
// times matrix e of b, and the gradients of these matrices. A block of 8 warps computes a tile [128,128], a
// warp [64,32] of it, by mma.sync or, in float32, by fma; operands come in two stages of 64 bytes along what
// is summed over. The grid is that of the most rows; blocks behind the last row end at once. Sums have one
// order: every run gives the same bits.
#pragma once
#include "cuda/matmul/plain_tile.h"
#include "cuda/matmul/tile_scheduler.cuh"
#include "cuda/ptx.cuh"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// How an operand lies in shared memory: 128 rows or columns of the result, `depth` numbers of each. In rows
// of 16-byte chunks, with one more, so that eight rows begin in different banks.
template <class Storage, bool depth_contiguous_>
struct PlainOperand {
  static constexpr bool depth_contiguous = depth_contiguous_;
  static constexpr int depth = kPlainDepthBytes / static_cast<int>(sizeof(Storage));
  static constexpr int chunk = 16 / static_cast<int>(sizeof(Storage));  // numbers
  static constexpr int rows = depth_contiguous ? kPlainTile : depth;
  static constexpr int columns = depth_contiguous ? depth : kPlainTile;
  static constexpr int row_bytes = columns * static_cast<int>(sizeof(Storage)) + 16;
  static constexpr int bytes = rows * row_bytes;

  // Byte offset of number `k` along the depth of row or column `i` of the result.
  static __device__ __forceinline__ int offset(int i, int k) {
    return (depth_contiguous ? i : k) * row_bytes +
           (depth_contiguous ? k : i) * static_cast<int>(sizeof(Storage));
  }

  // By the block: brings the rows and columns from (row, column) of a matrix of `width` columns on; zeros
  // where it has no row or column. `height`: of its rows, where they end.
  template <int width>
  static __device__ __forceinline__ void copy(unsigned char* to, const Storage* matrix, int row, int height,
                                              int column) {
    constexpr int row_chunks = columns / chunk;
#pragma unroll
    for (int at = static_cast<int>(threadIdx.x); at < rows * row_chunks; at += kPlainThreads) {
      const int r = at / row_chunks, c = at % row_chunks * chunk;
      unsigned char* const place = to + r * row_bytes + c * static_cast<int>(sizeof(Storage));
      const bool has_row = row + r < height;
      const Storage* const from = matrix + static_cast<std::int64_t>(row + r) * width + column + c;
      if constexpr (width % chunk == 0) {
        const bool is_there = has_row && column + c < width;
        ptx::copy_to_shared<16>(ptx::shared_address(place), is_there ? from : matrix, is_there);
      } else {
        auto* const numbers = reinterpret_cast<Storage*>(place);
#pragma unroll
        for (int i = 0; i < chunk; ++i)
          numbers[i] = has_row && column + c + i < width ? from[i] : from_float<Storage>(0.0f);
      }
    }
  }
};

// A warp's sums [64,32], in the layout of mma.m16n8k16: element e of at[m][n] is in row
// m * 16 + lane / 4 + e / 2 * 8, column n * 8 + lane % 4 * 2 + e % 2.
template <class Storage, bool uses_mma>
struct PlainSums {
  static constexpr int row_tiles = 4, column_tiles = 4;
  float at[row_tiles][column_tiles][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& row : at) {
#pragma unroll
      for (auto& tile : row) {
#pragma unroll
        for (float& sum : tile) sum = 0.0f;
      }
    }
  }

  // += one stage of operands.
  template <class Left, class Right>
  __device__ __forceinline__ void add(const unsigned char* left, const unsigned char* right) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int row = warp / 4 * 64, column = warp % 4 * 32;
    if constexpr (uses_mma) {
      const std::uint32_t a = ptx::shared_address(left), b = ptx::shared_address(right);
#pragma unroll
      for (int k = 0; k < Left::depth; k += 16) {
        std::uint32_t rows[row_tiles][4];
#pragma unroll
        for (int m = 0; m < row_tiles; ++m) {
          if constexpr (Left::depth_contiguous) {
            ptx::ldmatrix(rows[m], a + Left::offset(row + m * 16 + lane % 16, k + lane / 16 * 8));
          } else {
            ptx::ldmatrix_transposed(
                rows[m], a + Left::offset(row + m * 16 + lane / 8 % 2 * 8, k + lane / 16 * 8 + lane % 8));
          }
        }
#pragma unroll
        for (int n = 0; n < column_tiles; n += 2) {
          std::uint32_t columns[4];
          if constexpr (Right::depth_contiguous) {
            ptx::ldmatrix(columns,
                          b + Right::offset(column + n * 8 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8));
          } else {
            ptx::ldmatrix_transposed(columns,
                                     b + Right::offset(column + n * 8 + lane / 16 * 8, k + lane % 16));
          }
#pragma unroll
          for (int m = 0; m < row_tiles; ++m) {
            ptx::mma<Storage>(at[m][n], rows[m], columns[0], columns[1]);
            ptx::mma<Storage>(at[m][n + 1], rows[m], columns[2], columns[3]);
          }
        }
      }
    } else {
#pragma unroll 2
      for (int k = 0; k < Left::depth; ++k) {
        float rows[row_tiles * 2], columns[column_tiles * 2];
#pragma unroll
        for (int i = 0; i < row_tiles * 2; ++i)
          rows[i] = number(left + Left::offset(row + i / 2 * 16 + lane / 4 + i % 2 * 8, k));
#pragma unroll
        for (int i = 0; i < column_tiles * 2; ++i)
          columns[i] = number(right + Right::offset(column + i / 2 * 8 + lane % 4 * 2 + i % 2, k));
#pragma unroll
        for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
          for (int n = 0; n < column_tiles; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e)
              at[m][n][e] = fma(rows[m * 2 + e / 2], columns[n * 2 + e % 2], at[m][n][e]);
          }
        }
      }
    }
  }

  // Writes what lies in the result, whose rows are `width` long, from (row, column) on. `accumulate`: adds.
  template <bool accumulate, int width, class Result>
  __device__ __forceinline__ void write(Result* to, int first_row, int first_column, int height) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (int n = 0; n < column_tiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = first_row + warp / 4 * 64 + m * 16 + lane / 4 + e / 2 * 8,
                    column = first_column + warp % 4 * 32 + n * 8 + lane % 4 * 2 + e % 2;
          if (row >= height || column >= width) continue;
          Result& result = to[static_cast<std::int64_t>(row) * width + column];
          result = from_float<Result>(accumulate ? to_float(result) + at[m][n][e] : at[m][n][e]);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ float number(const unsigned char* from) {
    return to_float(*reinterpret_cast<const Storage*>(from));
  }
};

// The sums of a block's tile over `steps` stages, the copies of one under way while the one before is
// multiplied. copy(stage, left, right) starts them.
template <class Left, class Right, class Sums, class Copy>
__device__ __forceinline__ void sum_stages(Sums& sums, int steps, Copy copy) {
  static_assert(2 * (Left::bytes + Right::bytes) <= kPlainSharedBytes);
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const auto left = [&](int step) { return shared_memory + step % 2 * (Left::bytes + Right::bytes); };
  const auto right = [&](int step) { return left(step) + Left::bytes; };
  sums.clear();
  if (steps > 0) copy(0, left(0), right(0));
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    ptx::wait_copies();
    __syncthreads();  // this stage is there, and all have multiplied the one before
    if (step + 1 < steps) copy(step + 1, left(step + 1), right(step + 1));
    sums.template add<Left, Right>(left(step), right(step));
  }
}

// y [rows,n] = x [rows,k] . b; b_transposed: b is [experts * n, k], else [experts * k, n]. Launch:
// plain_matmul_blocks(rows, n) blocks of kPlainThreads, with kPlainSharedBytes.
template <class Storage, int experts, int n, int k, bool b_transposed, bool uses_mma>
__device__ void plain_expert_matmul(const Storage* x, const Storage* b, const int* offsets, Storage* y) {
  using Left = PlainOperand<Storage, true>;
  using Right = PlainOperand<Storage, b_transposed>;
  constexpr int depth = Left::depth, across = static_cast<int>(tiles_of(n, kPlainTile));
  const int row = static_cast<int>(blockIdx.x) / across * kPlainTile,
            column = static_cast<int>(blockIdx.x) % across * kPlainTile, rows = offsets[experts];
  if (row >= rows) return;
  const int expert = expert_at<experts>(offsets, row);
  const Storage* const matrix = b + static_cast<std::int64_t>(expert) * n * k;
  PlainSums<Storage, uses_mma> sums;
  sum_stages<Left, Right>(sums, static_cast<int>(tiles_of(k, depth)),
                          [&](int step, unsigned char* left, unsigned char* right) {
                            Left::template copy<k>(left, x, row, rows, step * depth);
                            if constexpr (b_transposed) {
                              Right::template copy<k>(right, matrix, column, n, step * depth);
                            } else {
                              Right::template copy<n>(right, matrix, step * depth, k, column);
                            }
                          });
  sums.template write<false, n>(y, row, column, rows);
}

// d_w[e] [m,n] (+)= d_y^T . x over the rows of expert e, of d_y [rows,m] and x [rows,n]. Launch:
// plain_gradient_blocks(experts, m, n) blocks of kPlainThreads, with kPlainSharedBytes.
template <class Storage, class Gradient, int experts, int m, int n, bool accumulate, bool uses_mma>
__device__ void plain_expert_gradients(const Storage* d_y, const Storage* x, const int* offsets,
                                       Gradient* d_w) {
  using Operand = PlainOperand<Storage, false>;
  constexpr int depth = Operand::depth, across = static_cast<int>(tiles_of(n, kPlainTile)),
                tiles = static_cast<int>(tiles_of(m, kPlainTile)) * across;
  const int expert = static_cast<int>(blockIdx.x) / tiles, tile = static_cast<int>(blockIdx.x) % tiles;
  const int row = tile / across * kPlainTile, column = tile % across * kPlainTile;
  const int first = offsets[expert], end = offsets[expert + 1];
  if (accumulate && first == end) return;
  PlainSums<Storage, uses_mma> sums;
  sum_stages<Operand, Operand>(sums, static_cast<int>(tiles_of(end - first, depth)),
                               [&](int step, unsigned char* left, unsigned char* right) {
                                 Operand::template copy<m>(left, d_y, first + step * depth, end, row);
                                 Operand::template copy<n>(right, x, first + step * depth, end, column);
                               });
  sums.template write<accumulate, n>(d_w + static_cast<std::int64_t>(expert) * m * n, row, column, m);
}

}  // namespace hydrac::cuda
