// Which matrix products the product kernel computes and how it is launched: constexpr functions that the
// compiler calls to plan launches and that the kernel calls to size its tiles, so that the two cannot
// disagree. Plain C++; no CUDA.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac::cuda {

// c [m,n] = a [m,k] . b for 16-bit storage, handed to an epilogue eight columns at a time.
struct ProductProblem {
  int capability;  // 10 * major + minor
  bool is_bf16;    // or f16
  // The columns of k are contiguous in a. In b they are if it is [n,k], the weight of y = x w^T; the other
  // layout is [k,n], of d_x = d_y w.
  bool b_transposed;
  std::int64_t m, n, k;
  bool paired;  // the epilogue takes columns c and c + n / 2 together
  int sums;     // of the epilogue's columns, each over all rows
};

// How one block of threads works: its two warpgroups of products own 64 rows of the tile each and add up
// `depth` of k at a time, of which shared memory holds `stages`. Two further warpgroups run the epilogue of
// the tile before.
struct ProductTile {
  int columns;  // 128 or 256
  int stages;
  int cluster;  // blocks, one below the other, that share their tiles of b: 1 or 2
  int depth = 64;
  int wide = 128;
  int epilogue_warps = 8;
  bool copy_warp = true;

  static constexpr int rows = 128;
  static constexpr int product_warps = 8;
  static constexpr int barrier_bytes = 256;

  HYDRAC_FN constexpr int threads() const {
    return (product_warps + epilogue_warps + copy_warp + 3) / 4 * 128;
  }
  HYDRAC_FN constexpr int sums_bytes() const {
    return epilogue_warps * 32 * 8 * 4;
  }  // of eight columns a thread

  HYDRAC_FN constexpr int stage_bytes() const { return (rows + columns) * depth * 2; }
  HYDRAC_FN constexpr int result_bytes() const { return rows * columns * 2; }  // on its way to the epilogue
};

struct ProductLaunch {
  unsigned grid;  // in x; y and z are 1; a multiple of `cluster`
  int threads;
  int cluster;                 // blocks in x
  int blocks_per_sm;           // what registers are limited for
  std::uint64_t shared_bytes;  // dynamic; over 48 KiB needs the function attribute
};

// One operand for cuTensorMapEncodeTiled: a matrix of 16-bit elements, 128-byte swizzled, zeros outside. The
// first dimension is the contiguous one.
struct ProductMap {
  std::int64_t size[2];    // elements
  std::int64_t row_bytes;  // from a row to the next
  int box[2];              // elements that one copy moves
};

HYDRAC_FN constexpr bool product_supports(const ProductProblem& p) {
  const std::int64_t unit = p.paired ? 16 : 8;  // 16 bytes of each row that is accessed
  return p.capability == 90 && p.m > 0 && p.n > 0 && p.k > 0 && p.n % unit == 0 && p.k % 8 == 0 &&
         p.sums >= 0 && p.sums <= 2;
}

HYDRAC_FN constexpr bool product_pays(const ProductProblem& p) {
  return product_supports(p) && p.b_transposed && p.m >= 4096;
}

// Columns for which the epilogue is called.
HYDRAC_FN constexpr std::int64_t product_columns(const ProductProblem& p) {
  return p.paired ? p.n / 2 : p.n;
}

// Rows of the workspace [rows, product_columns] of each column sum: every tile of rows leaves one.
HYDRAC_FN constexpr std::int64_t product_sums_rows(const ProductProblem& p) {
  return (p.m + ProductTile::rows - 1) / ProductTile::rows;
}

namespace detail {

HYDRAC_FN constexpr std::int64_t product_tiles(const ProductProblem& p, int columns) {
  return (p.m + ProductTile::rows - 1) / ProductTile::rows * ((p.n + columns - 1) / columns);
}

}  // namespace detail

// Multiprocessors of the chips of one capability. A chip that has fewer computes the same, in more turns.
HYDRAC_FN constexpr int product_multiprocessors([[maybe_unused]] int capability) {
  return 132;
}

HYDRAC_FN constexpr ProductTile product_tile(const ProductProblem& p) {
  // Wide tiles read each operand less often; narrow ones leave fewer multiprocessors without work.
  const bool wide = detail::product_tiles(p, 256) >= product_multiprocessors(p.capability);
  return wide ? ProductTile{256, 3, 2} : ProductTile{128, 5, 1};
}

// Tiles, then results, then barriers, then the sums of the epilogue's warps.
HYDRAC_FN constexpr std::uint64_t product_shared_bytes(const ProductProblem& p, const ProductTile& tile) {
  const int sums = p.sums == 0 ? 0 : tile.sums_bytes();
  return static_cast<std::uint64_t>(tile.stages) * tile.stage_bytes() + tile.result_bytes() + sums +
         ProductTile::barrier_bytes;
}

HYDRAC_FN constexpr ProductLaunch product_launch(const ProductProblem& p, const ProductTile& tile) {
  const std::int64_t rows = (p.m + ProductTile::rows - 1) / ProductTile::rows;
  const std::int64_t clusters =
      (rows + tile.cluster - 1) / tile.cluster * ((p.n + tile.columns - 1) / tile.columns);
  const std::int64_t most = product_multiprocessors(p.capability) / tile.cluster;
  return {static_cast<unsigned>((clusters < most ? clusters : most) * tile.cluster), tile.threads(),
          tile.cluster, 1, product_shared_bytes(p, tile)};
}
HYDRAC_FN constexpr ProductLaunch product_launch(const ProductProblem& p) {
  return product_launch(p, product_tile(p));
}

HYDRAC_FN constexpr ProductMap product_map_a(const ProductProblem& p, const ProductTile& tile) {
  return {{p.k, p.m}, p.k * 2, {tile.depth, ProductTile::rows}};
}

// Halves of a tile's columns come in copies of their own: the two sides of a paired product, or the shares of
// a cluster's blocks. Where the columns are contiguous, a copy is as wide as the swizzle.
HYDRAC_FN constexpr ProductMap product_map_b(const ProductProblem& p, const ProductTile& tile) {
  const int half = tile.columns / (tile.cluster > 2 ? tile.cluster : 2);
  if (p.b_transposed) return {{p.k, p.n}, p.k * 2, {tile.depth, half}};
  return {{p.n, p.k}, p.n * 2, {64, tile.depth}};
}
HYDRAC_FN constexpr ProductMap product_map_b(const ProductProblem& p) {
  return product_map_b(p, product_tile(p));
}

}  // namespace hydrac::cuda
