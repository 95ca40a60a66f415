// Which matmuls the matmul kernel computes and how it is launched: constexpr functions that the
// compiler calls to plan launches and that the kernel calls to size its tiles, so that the two cannot
// disagree. Plain C++; no CUDA.
#pragma once
#include <cstdint>

#include "cuda/chip.h"
#include "cuda/matmul/tile.h"

namespace hydrac::cuda {

// c [m,n] = a [m,k] . b for 16-bit storage, handed to an epilogue eight columns at a time.
struct MatmulProblem {
  Chip chip;
  bool is_bf16;  // or f16
  // The columns of k are contiguous in a. In b they are if it is [n,k], the weight of y = x w^T; the other
  // layout is [k,n], of d_x = d_y w.
  bool b_transposed;
  std::int64_t m, n, k;
  bool paired;  // the epilogue takes columns c and c + n / 2 together
  int sums;     // of the epilogue's columns, each over all rows
  // Of an elementwise epilogue (cuda/stationary_matmul/stationary_matmul.cuh): the matrices that it writes.
  // 0: it is none.
  int matrices = 0;
};

struct MatmulLaunch {
  unsigned grid;  // in x; y and z are 1; a multiple of `cluster`
  int threads;
  int cluster;                 // blocks in x
  int blocks_per_sm;           // what registers are limited for
  std::uint64_t shared_bytes;  // dynamic; over 48 KiB needs the function attribute
};

// One operand for cuTensorMapEncodeTiled: a matrix of 16-bit elements, 128-byte swizzled, zeros outside. The
// first dimension is the contiguous one.
struct MatmulMap {
  std::int64_t size[2];    // elements
  std::int64_t row_bytes;  // from a row to the next
  int box[2];              // elements that one copy moves
};

HYDRAC_FN constexpr bool matmul_supports(const MatmulProblem& p) {
  const std::int64_t unit = p.paired ? 16 : 8;  // 16 bytes of each row that is accessed
  return p.chip.capability == 90 && p.m > 0 && p.n > 0 && p.k > 0 && p.n % unit == 0 && p.k % 8 == 0 &&
         p.sums >= 0 && p.sums <= 2;
}

// Columns for which the epilogue is called.
HYDRAC_FN constexpr std::int64_t matmul_columns(const MatmulProblem& p) {
  return p.paired ? p.n / 2 : p.n;
}

namespace detail {

HYDRAC_FN constexpr std::int64_t matmul_tiles(const MatmulProblem& p, int rows) {
  return (p.m + rows - 1) / rows * ((p.n + MatmulTile::columns - 1) / MatmulTile::columns);
}

}  // namespace detail

// High tiles read the operands less often; low ones leave fewer multiprocessors of small matmuls without
// work.
HYDRAC_FN constexpr MatmulTile matmul_tile(const MatmulProblem& p) {
  const bool high = detail::matmul_tiles(p, 192) >= 2 * p.chip.multiprocessors;
  return high ? MatmulTile{192, 4} : MatmulTile{128, 5};
}

// Whether the matmul with its epilogue is faster than a library's matmul and a kernel behind it, as
// measured on an H200 (tests/gpu/matmul_bench.cu): forward by 15 to 45% from [2048,1024] on, gradients by 22
// to 33% from [16384,1536] on. Smaller gradients are the small matmul's or have no pointwise reader; fewer
// rows (generated text's) were not measured.
HYDRAC_FN constexpr bool matmul_pays(const MatmulProblem& p) {
  return matmul_supports(p) && p.m >= 2048 && detail::matmul_tiles(p, 128) >= (p.b_transposed ? 128 : 1536);
}

// Rows of the workspace [rows, matmul_columns] of each column sum: every tile of rows leaves one.
HYDRAC_FN constexpr std::int64_t matmul_sums_rows(const MatmulProblem& p) {
  const int rows = matmul_tile(p).rows;
  return (p.m + rows - 1) / rows;
}

HYDRAC_FN constexpr MatmulLaunch matmul_launch(const MatmulProblem& p) {
  const MatmulTile tile = matmul_tile(p);
  constexpr int cluster = MatmulTile::cluster;
  const std::int64_t across = (p.n + MatmulTile::columns - 1) / MatmulTile::columns;
  const std::int64_t down = (p.m + tile.rows - 1) / tile.rows;
  const std::int64_t clusters =
      across % cluster == 0 ? down * (across / cluster) : (down + cluster - 1) / cluster * across;
  const std::int64_t most = p.chip.multiprocessors / cluster;
  return {static_cast<unsigned>((clusters < most ? clusters : most) * cluster), MatmulTile::threads, cluster,
          1, static_cast<std::uint64_t>(tile.shared_bytes())};
}

// A cluster's blocks copy a share of the rows each, for all of them.
HYDRAC_FN constexpr MatmulMap matmul_map_a(const MatmulProblem& p) {
  return {{p.k, p.m}, p.k * 2, {MatmulTile::depth, matmul_tile(p).rows / MatmulTile::cluster}};
}

// Halves of a tile's columns come in copies of their own: they are the two sides of a paired matmul.
HYDRAC_FN constexpr MatmulMap matmul_map_b(const MatmulProblem& p) {
  constexpr int half = MatmulTile::columns / 2;
  if (p.b_transposed) return {{p.k, p.n}, p.k * 2, {MatmulTile::depth, half}};
  return {{p.n, p.k}, p.n * 2, {half, MatmulTile::depth}};
}

}  // namespace hydrac::cuda
