// Which matmuls the kernel computes whose epilogue sees whole rows, and how it is launched: constexpr
// functions that the compiler calls to plan launches and that the kernel calls to size its tiles. Plain C++;
// no CUDA.
#pragma once
#include "cuda/matmul/geometry.h"

namespace hydrac::cuda {

// How one block of threads works on one tile, and where whole rows of the matmul come from. Either the tiles
// of `across` blocks that lie side by side have them: these form a cluster, in which a warpgroup has a panel
// of 64 columns, and send each other their results, so that each then has an equal part of the rows as a
// whole. Or, `across` being 1, a block has them by itself: two warpgroups multiply 64 rows each; `down`
// blocks that lie one below the other form a cluster, and copy a share of the columns of b each, for all of
// them. Shared memory holds `stages` of `depth` of k at a time.
struct RowMatmulTile {
  int rows;  // 32, 64 or 128; 128 where a block has whole rows
  int panels;
  int across, down;  // one of them is 1; powers of two, at most 8
  int stages;

  static constexpr int panel_columns = 64;  // of a copy
  static constexpr int depth = 64;          // 128 bytes, the width of the swizzle
  static constexpr int barrier_bytes = 256;
  // Behind the stages of a block that has whole rows: barriers, as many statistics of its rows, and sums over
  // rows on their way between threads.
  static constexpr int epilogue_bytes = 3072, exchange_bytes = 1536, statistics = 2;

  HYDRAC_FN constexpr int columns() const { return panels * panel_columns; }
  HYDRAC_FN constexpr bool has_whole_rows() const { return across == 1; }
  HYDRAC_FN constexpr int warpgroups() const { return has_whole_rows() ? rows / 64 : panels; }
  HYDRAC_FN constexpr int cluster() const { return across * down; }
  // Eight columns of a row are a thread's in the epilogue, which is also the work of the warps that copy,
  // where whole rows are that of all.
  HYDRAC_FN constexpr int epilogue_threads() const {
    return has_whole_rows() && rows % (threads() / (columns() / 8)) == 0 ? threads() : warpgroups() * 128;
  }
  HYDRAC_FN constexpr int threads() const { return warpgroups() * 128 + (has_whole_rows() ? 128 : 32); }
  HYDRAC_FN constexpr int stage_bytes() const { return (rows + columns()) * depth * 2; }
  // Rows as a whole, where they come from other blocks.
  HYDRAC_FN constexpr int row_bytes() const { return has_whole_rows() ? 0 : rows * columns() * 2; }
  HYDRAC_FN constexpr int shared_bytes() const {
    return stages * stage_bytes() + (has_whole_rows() ? epilogue_bytes : barrier_bytes + row_bytes());
  }
};

namespace detail {

HYDRAC_FN constexpr std::int64_t row_tiles(std::int64_t size, int tile) {
  return (size + tile - 1) / tile;
}

// Blocks of 32 rows and 128 columns, one a multiprocessor at most. Clusters are pairs: of four blocks not all
// multiprocessors of a chip could have one.
HYDRAC_FN constexpr bool row_matmul_is_small(const MatmulProblem& p) {
  return p.n == 256 && row_tiles(p.m, 32) * 2 <= p.chip.multiprocessors;
}

}  // namespace detail

// Up to three column sums. Rows are whole in the blocks of a cluster.
HYDRAC_FN constexpr bool row_matmul_supports(const MatmulProblem& p) {
  return p.chip.capability == 90 && !p.paired && p.m > 0 && p.k > 0 && p.k % 8 == 0 && p.sums >= 0 &&
         p.sums <= 3 && (p.n == 128 || p.n == 256 || p.n == 384);
}

// Few rows: tiles so small that all multiprocessors have one, with so many stages that none has two while
// another has none, and that the blocks of a small kernel behind this one still find room. Many rows: tiles
// so large that operands are read seldom, with as many stages as there is room for.
HYDRAC_FN constexpr RowMatmulTile row_matmul_tile(const MatmulProblem& p) {
  if (detail::row_matmul_is_small(p)) return {32, 2, 2, 1, 7};
  RowMatmulTile tile{128, static_cast<int>(p.n / 64), 1, 2, 1};
  tile.stages = (200 << 10) / tile.stage_bytes();
  return tile;
}

// Whether it is faster than a matmul and a norm behind it, as measured in CUDA graphs on an H200
// (tests/gpu/row_matmul_bench.cu), with a residual of 16 bits: forward by 2 to 32%, backward by 7 to 23%,
// where rounds of blocks leave few multiprocessors without one; with one of 32 bits the large tile is as fast
// as the two, or up to 10% slower, but a whole step of char-small takes 2% less. A longer k hides less of the
// epilogue than a library's matmul gains. Fewer rows are those of generated text.
HYDRAC_FN constexpr bool row_matmul_pays(const MatmulProblem& p) {
  if (!row_matmul_supports(p) || p.n < 256 || p.m < 1024) return false;
  if (detail::row_matmul_is_small(p)) return p.k <= 1024;
  const RowMatmulTile tile = row_matmul_tile(p);
  const std::int64_t blocks = detail::row_tiles(p.m, tile.rows);
  const std::int64_t places = detail::row_tiles(blocks, p.chip.multiprocessors) * p.chip.multiprocessors;
  return p.k <= 1536 && blocks * 8 >= places * 7;
}

HYDRAC_FN constexpr MatmulLaunch row_matmul_launch(const MatmulProblem& p, const RowMatmulTile& tile) {
  const std::int64_t height = detail::row_tiles(p.m, tile.rows * tile.down) * tile.down;
  return {static_cast<unsigned>(height * tile.across), tile.threads(), tile.cluster(), 1,
          static_cast<std::uint64_t>(tile.shared_bytes())};
}

// Rows of the workspace [rows, sums * n] of column sums: every block leaves one.
HYDRAC_FN constexpr std::int64_t row_matmul_sums_rows(const MatmulProblem& p, const RowMatmulTile& tile) {
  return row_matmul_launch(p, tile).grid;
}

HYDRAC_FN constexpr MatmulMap row_matmul_map_a(const MatmulProblem& p, const RowMatmulTile& tile) {
  return {{p.k, p.m}, p.k * 2, {RowMatmulTile::depth, tile.rows}};
}

HYDRAC_FN constexpr MatmulMap row_matmul_map_b(const MatmulProblem& p) {
  constexpr int depth = RowMatmulTile::depth, columns = RowMatmulTile::panel_columns;
  if (p.b_transposed) return {{p.k, p.n}, p.k * 2, {depth, columns}};
  return {{p.n, p.k}, p.n * 2, {columns, depth}};
}

}  // namespace hydrac::cuda
