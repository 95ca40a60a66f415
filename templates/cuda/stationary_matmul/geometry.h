// Which matmuls the kernel computes that keeps its columns of b in shared memory, and how it is
// launched: constexpr functions that the compiler calls to plan launches and that the kernel calls to size
// its shared memory. Plain C++; no CUDA.
#pragma once
#include "cuda/matmul/geometry.h"

namespace hydrac::cuda {

// How one block of threads works: it keeps 128 columns of b, whole, while rows of a pass by. Three warpgroups
// take turns, one multiplying while the others run the epilogues of their tiles. Shared memory holds `stages`
// of `depth` of k of a tile's rows.
struct StationaryTile {
  int depth_tiles;  // of k
  int stages;
  int matrices;  // that the epilogue writes
  int slots;     // of each warpgroup, for pieces of those: a power of two

  static constexpr int rows = 128;
  static constexpr int columns = 128;
  static constexpr int depth = 64;       // 128 bytes, the width of the swizzle
  static constexpr int piece_rows = 16;  // of a slot
  static constexpr int pieces = rows / piece_rows;
  static constexpr int piece_bytes = piece_rows * columns * 2;  // of one matrix
  static constexpr int warpgroups = 3;
  static constexpr int threads = warpgroups * 128 + 128;  // with four warps of which one copies
  static constexpr int stage_bytes = rows * depth * 2;
  static constexpr int barrier_bytes = 256;

  HYDRAC_FN constexpr int b_bytes() const { return depth_tiles * columns * depth * 2; }
  HYDRAC_FN constexpr int slots_bytes() const { return slots * matrices * piece_bytes; }
  HYDRAC_FN constexpr int shared_bytes() const {
    return b_bytes() + stages * stage_bytes + warpgroups * slots_bytes() + barrier_bytes;
  }
};

HYDRAC_FN constexpr bool stationary_matmul_supports(const MatmulProblem& p) {
  return matmul_supports(p) && !p.paired && p.sums == 0 && p.matrices >= 1 && p.matrices <= 2 &&
         p.k <= 6 * StationaryTile::depth;
}

namespace detail {

HYDRAC_FN constexpr std::int64_t stationary_tiles(std::int64_t size, int tile) {
  return (size + tile - 1) / tile;
}

}  // namespace detail

// As many stages as there is room for.
HYDRAC_FN constexpr StationaryTile stationary_tile(const MatmulProblem& p) {
  StationaryTile tile{static_cast<int>(detail::stationary_tiles(p.k, StationaryTile::depth)), 2, p.matrices,
                      4 / p.matrices};
  while (tile.stages < 8 && tile.shared_bytes() + StationaryTile::stage_bytes <= 227 << 10) ++tile.stages;
  return tile;
}

// Whether it is faster than the kernel for large matmuls, as measured in CUDA graphs on an H200
// (tests/gpu/stationary_matmul_bench.cu): by 7 to 17% with two matrices, 5 to 21% with one.
HYDRAC_FN constexpr bool stationary_matmul_pays(const MatmulProblem& p) {
  return stationary_matmul_supports(p) && p.m >= 8192 && p.n >= 1024;
}

// Blocks share out the columns, and those of the same columns the rows.
HYDRAC_FN constexpr MatmulLaunch stationary_launch(const MatmulProblem& p) {
  const std::int64_t across = detail::stationary_tiles(p.n, StationaryTile::columns);
  const std::int64_t down = detail::stationary_tiles(p.m, StationaryTile::rows);
  const std::int64_t most = p.chip.multiprocessors / across;
  const std::int64_t shares = most < 1 ? 1 : most < down ? most : down;
  return {static_cast<unsigned>(across * shares), StationaryTile::threads, 1, 1,
          static_cast<std::uint64_t>(stationary_tile(p).shared_bytes())};
}

HYDRAC_FN constexpr MatmulMap stationary_map_a(const MatmulProblem& p) {
  return {{p.k, p.m}, p.k * 2, {StationaryTile::depth, StationaryTile::rows}};
}

HYDRAC_FN constexpr MatmulMap stationary_map_b(const MatmulProblem& p) {
  constexpr int half = StationaryTile::columns / 2;
  if (p.b_transposed) return {{p.k, p.n}, p.k * 2, {StationaryTile::depth, half}};
  return {{p.n, p.k}, p.n * 2, {half, StationaryTile::depth}};
}

// A matrix that the epilogue writes.
HYDRAC_FN constexpr MatmulMap stationary_map_matrix(const MatmulProblem& p) {
  return {{p.n, p.m}, p.n * 2, {StationaryTile::columns / 2, StationaryTile::piece_rows}};
}

}  // namespace hydrac::cuda
