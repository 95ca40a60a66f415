// Which matmuls the kernels of cuda/matmul/matmul.cuh compute, on which tiles, and how they are launched:
// constexpr functions that the compiler calls to plan launches and that kernels and tests check. Plain C++;
// no CUDA. What pays was measured on an H200, in CUDA graphs (tests/gpu/matmul_bench.cu) and in whole steps.
#pragma once
#include "cuda/matmul/problem.h"

namespace hydrac::cuda {

namespace detail {

// Tiles of that size.
HYDRAC_FN constexpr std::int64_t matmul_tiles(const MatmulProblem& p, int rows, int columns) {
  return tiles_of(p.m, rows) * tiles_of(p.n, columns);
}

// Panels of one row of tiles, so many that a multiprocessor has one tile.
HYDRAC_FN constexpr std::int64_t one_tile_panels(const MatmulProblem& p) {
  return tiles_of(matmul_tiles(p, 64, MatmulTile::panel_columns), p.chip.multiprocessors);
}

}  // namespace detail

HYDRAC_FN constexpr bool matmul_supports(const MatmulProblem& p, MatmulSchedule schedule) {
  const std::int64_t unit = p.paired ? 16 : 8;  // 16 bytes of each row that is accessed
  if (p.chip.capability != 90 || p.m <= 0 || p.n <= 0 || p.k <= 0 || p.n % unit != 0 || p.k % 8 != 0 ||
      p.sums < 0 || p.tail_k < 0 || p.tail_k % 8 != 0)
    return false;
  if ((p.tail_k > 0 || p.experts > 0) && schedule != MatmulSchedule::persistent) return false;
  if (p.experts > 0 && (p.tail_k > 0 || p.sums > 0 || p.m % kExpertRows != 0)) return false;
  switch (schedule) {
    case MatmulSchedule::persistent:
      return p.sums <= 2;
    case MatmulSchedule::one_tile:
      return p.sums <= 2 && !p.paired;
    case MatmulSchedule::whole_rows:
      return p.sums <= 3 && !p.paired && (p.n == 256 || p.n == 384);
    case MatmulSchedule::few_rows:
      return p.sums == 0 && p.m <= 64 && p.b_transposed;
  }
  return false;
}

// `problem` is supported.
HYDRAC_FN constexpr MatmulTile matmul_tile(const MatmulProblem& p, MatmulSchedule schedule) {
  MatmulTile tile{schedule, 64, 1, 1};
  const std::int64_t depth_tiles = tiles_of(p.k, MatmulTile::depth);
  switch (schedule) {
    // High tiles read the operands less often; low ones leave fewer multiprocessors of small matmuls without
    // work.
    case MatmulSchedule::persistent:
      tile.panels = 2, tile.cluster = 2;
      tile.rows = detail::matmul_tiles(p, 192, tile.columns()) >= 2 * p.chip.multiprocessors ? 192 : 128;
      // Experts' rows are cut at multiples of 128, and only blocks side by side surely have the same expert.
      if (p.experts > 0) {
        tile.rows = kExpertRows;
        if (tiles_of(p.n, tile.columns()) % tile.cluster != 0) tile.cluster = 1;
      }
      tile.stages = tile.rows == 192 ? 4 : 5;
      break;
    // All of k is on its way at once where 192 KiB of shared memory suffice for it, and 128 KiB else: more
    // stages than that are not refilled sooner, and leave the next kernel's blocks no room.
    case MatmulSchedule::one_tile: {
      const std::int64_t wanted = detail::one_tile_panels(p);
      tile.panels = static_cast<int>(wanted < 4 ? wanted : 4);
      const std::int64_t all = (192 << 10) / tile.stage_bytes();
      tile.stages = static_cast<int>(depth_tiles <= all ? depth_tiles : (128 << 10) / tile.stage_bytes());
      break;
    }
    // Operands are read seldom, with as many stages as there is room for.
    case MatmulSchedule::whole_rows:
      tile.rows = 128, tile.panels = static_cast<int>(p.n / MatmulTile::panel_columns), tile.cluster = 2;
      tile.stages = (200 << 10) / tile.stage_bytes();
      break;
    // Blocks for three quarters of the multiprocessors at least, where k has parts enough. With 96 KiB of
    // shared memory two blocks have room, the second perhaps of the next kernel, which loads its b already.
    case MatmulSchedule::few_rows:
      tile.panels = p.paired ? 2 : 1;
      while (tile.split < 4 &&
             tiles_of(p.n, tile.columns()) * tile.split * 4 < std::int64_t{p.chip.multiprocessors} * 3 &&
             depth_tiles % (2 * tile.split) == 0 && depth_tiles / (2 * tile.split) >= 4)
        tile.split *= 2;
      tile.stages = static_cast<int>(tiles_of(depth_tiles, tile.split));
      if (tile.stages > (96 << 10) / tile.stage_bytes()) tile.stages = (96 << 10) / tile.stage_bytes();
      break;
  }
  return tile;
}

// True if the matmul with its epilogue is faster than a library's matmul and a kernel behind it.
HYDRAC_FN constexpr bool matmul_pays(const MatmulProblem& p, MatmulSchedule schedule) {
  if (!matmul_supports(p, schedule)) return false;
  if (p.experts > 0) return true;  // no library's to compare with
  const int sms = p.chip.multiprocessors;
  switch (schedule) {
    // Forward by 15 to 45% where nearly all multiprocessors have a tile, gradients by 22 to 33% from 12 tiles
    // each on. Smaller gradients are one_tile's or have no pointwise reader.
    case MatmulSchedule::persistent: {
      const std::int64_t tiles = detail::matmul_tiles(p, 128, 128);
      return p.m >= 2048 && (p.b_transposed ? tiles * 32 >= sms * 31 : tiles * 2 >= sms * 23);
    }
    // Faster by 8 to 20%, with an epilogue or without, if a multiprocessor has one tile and loads at most 288
    // KiB of operands. As fast for [2048,256] with k = 1024, where the next kernel can begin early.
    case MatmulSchedule::one_tile: {
      const std::int64_t panels = detail::one_tile_panels(p);
      return p.m >= 2048 && panels <= 4 && panels <= tiles_of(p.n, MatmulTile::panel_columns) &&
             (panels + 1) * 64 * p.k * 2 <= 288 << 10;
    }
    // 2% of a step of char-small, where waves of blocks leave few multiprocessors without one. A longer k
    // hides less of the epilogue than a library's matmul gains, and column sums are more than registers hold.
    case MatmulSchedule::whole_rows: {
      const std::int64_t blocks = tiles_of(p.m, 128), places = tiles_of(blocks, sms) * sms;
      return p.m >= 1024 && p.k <= 1536 && p.sums == 0 && blocks * 8 >= places * 7;
    }
    // 5% of llama-1b's step for 64 rows; 3% slower for 3, where a library's is bound by weights alone. Where
    // between them was not measured: half of a tile.
    case MatmulSchedule::few_rows:
      return p.m > 32;
  }
  return false;
}

// True if a matmul with a tail is faster than two library matmuls whose results the next kernel adds. A tail
// of up to 256 costs one to four steps of the mainloop. It saves a launch and four bytes of memory traffic
// for each element of the result: 7% of a step of llama-8b-lora on an H100. At k = 14336 a library's matmul
// without an epilogue gains more than that (0.5% of that step).
HYDRAC_FN constexpr bool matmul_tail_pays(const MatmulProblem& p) {
  return matmul_pays(p, MatmulSchedule::persistent) && p.tail_k <= 256 && p.k <= 8192;
}

HYDRAC_FN constexpr MatmulLaunch matmul_launch(const MatmulProblem& p, const MatmulTile& tile) {
  const std::int64_t across = tiles_of(p.n, tile.columns()), down = tiles_of(p.m, tile.rows);
  const bool side_by_side = tile.is_persistent() && across % tile.cluster == 0;
  std::int64_t clusters =
      side_by_side ? down * (across / tile.cluster) : tiles_of(down, tile.cluster) * across;
  const std::int64_t most = p.chip.multiprocessors / tile.cluster;
  if (tile.is_persistent() && clusters > most) clusters = most;
  const int cluster = tile.cluster * tile.split;
  return {static_cast<unsigned>(clusters * cluster), tile.threads(), cluster,
          static_cast<std::uint64_t>(tile.shared_bytes())};
}

// Rows of the workspace of each column sum: every tile of rows leaves one, or, of whole rows, every block.
HYDRAC_FN constexpr std::int64_t matmul_sums_rows(const MatmulProblem& p, const MatmulTile& tile) {
  if (tile.schedule == MatmulSchedule::whole_rows) return matmul_launch(p, tile).grid;
  return tiles_of(p.m, tile.rows);
}

// The blocks of a persistent cluster that lie side by side copy a share of the rows each, for all of them.
HYDRAC_FN constexpr MatmulMap matmul_map_a(const MatmulProblem& p, const MatmulTile& tile) {
  const bool shares = tile.is_persistent() && tiles_of(p.n, tile.columns()) % tile.cluster == 0;
  return {{p.k, p.m}, {MatmulTile::depth, shares ? tile.rows / tile.cluster : tile.rows}};
}

// A panel.
HYDRAC_FN constexpr MatmulMap matmul_map_b(const MatmulProblem& p) {
  constexpr int depth = MatmulTile::depth, columns = MatmulTile::panel_columns;
  const std::int64_t matrices = p.experts > 0 ? p.experts : 1;
  if (p.b_transposed) return {{p.k, matrices * p.n}, {depth, columns}};
  return {{p.n, matrices * p.k}, {columns, depth}};
}

// The problem whose a and b are the tail's: for their maps.
HYDRAC_FN constexpr MatmulProblem matmul_tail(MatmulProblem p) {
  p.k = p.tail_k;
  return p;
}

}  // namespace hydrac::cuda
