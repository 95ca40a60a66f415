// Which matmuls the kernel for small ones computes, and how it is launched: constexpr functions that
// the compiler calls to plan launches and that the kernel calls to size its tiles. Plain C++; no CUDA.
#pragma once
#include "cuda/matmul/geometry.h"

namespace hydrac::cuda {

// How one block of threads works: on one tile, a warpgroup for each panel of 64 columns, and a warp that
// copies. Shared memory holds `stages` of `depth` of k at a time.
struct SmallMatmulTile {
  int panels;  // 1 to 4
  int stages;

  static constexpr int rows = 64;
  static constexpr int panel_columns = 64;  // rows of the tensor cores' instruction
  static constexpr int depth = 64;          // 128 bytes, the width of the swizzle
  static constexpr int down = 1;            // blocks that share copies of b
  static constexpr int barrier_bytes = 256;

  HYDRAC_FN constexpr int columns() const { return panels * panel_columns; }
  HYDRAC_FN constexpr int warpgroups() const { return panels; }
  HYDRAC_FN constexpr int threads() const { return panels * 128 + 32; }
  HYDRAC_FN constexpr int stage_bytes() const { return (rows + columns()) * depth * 2; }
  HYDRAC_FN constexpr int shared_bytes() const { return stages * stage_bytes() + barrier_bytes; }
};

HYDRAC_FN constexpr bool small_matmul_supports(const MatmulProblem& p) {
  return matmul_supports(p) && !p.paired;
}

namespace detail {

HYDRAC_FN constexpr std::int64_t small_tiles(std::int64_t size, int tile) {
  return (size + tile - 1) / tile;
}

// So many that a multiprocessor has one tile.
HYDRAC_FN constexpr std::int64_t small_panels(const MatmulProblem& p) {
  const std::int64_t all = small_tiles(p.m, SmallMatmulTile::rows) * small_tiles(p.n, 64);
  return (all + p.chip.multiprocessors - 1) / p.chip.multiprocessors;
}

}  // namespace detail

// All of k is on its way at once where 192 KiB of shared memory suffice for it, and 128 KiB else: more stages
// than that are not refilled sooner, and leave the next kernel's blocks no room.
HYDRAC_FN constexpr SmallMatmulTile small_matmul_tile(const MatmulProblem& p) {
  const std::int64_t wanted = detail::small_panels(p);
  SmallMatmulTile tile{static_cast<int>(wanted < 4 ? wanted : 4), 1};
  const std::int64_t depth_tiles = detail::small_tiles(p.k, SmallMatmulTile::depth);
  const int stage = tile.stage_bytes();
  tile.stages = static_cast<int>(depth_tiles <= (192 << 10) / stage ? depth_tiles : (128 << 10) / stage);
  return tile;
}

// Whether the matmul is faster than a library's, with an epilogue or without, as measured in CUDA graphs on
// an H200 (tests/gpu/small_matmul_bench.cu): by 8 to 20% where a multiprocessor has one tile and that copies
// no more than 288 KiB of operands; of [2048,256] with k = 1024 as fast, and the kernel behind it can begin
// early. Fewer rows are those of generated text.
HYDRAC_FN constexpr bool small_matmul_pays(const MatmulProblem& p) {
  const std::int64_t panels = detail::small_panels(p);
  return small_matmul_supports(p) && p.m >= 2048 && panels <= 4 && panels <= detail::small_tiles(p.n, 64) &&
         (panels + 1) * 64 * p.k * 2 <= 288 << 10;
}

HYDRAC_FN constexpr MatmulLaunch small_matmul_launch(const MatmulProblem& p, const SmallMatmulTile& tile) {
  const std::int64_t blocks = detail::small_tiles(p.m, tile.rows) * detail::small_tiles(p.n, tile.columns());
  return {static_cast<unsigned>(blocks), tile.threads(), 1, 1,
          static_cast<std::uint64_t>(tile.shared_bytes())};
}

// Rows of the workspace [rows, n] of each column sum: every tile of rows leaves one.
HYDRAC_FN constexpr std::int64_t small_matmul_sums_rows(const MatmulProblem& p) {
  return detail::small_tiles(p.m, SmallMatmulTile::rows);
}

HYDRAC_FN constexpr MatmulMap small_matmul_map_a(const MatmulProblem& p) {
  return {{p.k, p.m}, p.k * 2, {SmallMatmulTile::depth, SmallMatmulTile::rows}};
}

HYDRAC_FN constexpr MatmulMap small_matmul_map_b(const MatmulProblem& p) {
  constexpr int depth = SmallMatmulTile::depth, columns = SmallMatmulTile::panel_columns;
  if (p.b_transposed) return {{p.k, p.n}, p.k * 2, {depth, columns}};
  return {{p.n, p.k}, p.n * 2, {columns, depth}};
}

}  // namespace hydrac::cuda
