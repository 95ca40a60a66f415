// Which weight gradients one kernel computes together and how it is launched: constexpr functions that the
// compiler calls to plan launches and that the kernel calls to size its tiles, so that the two cannot
// disagree. Plain C++; no CUDA.
#pragma once
#include "cuda/matmul/geometry.h"

namespace hydrac::cuda {

inline constexpr int kMostWeightGradients = 8;

// d_w [m,n] f32 = d_y^T . x for 16-bit d_y [rows,m] and x [rows,n], for several pairs of the same rows.
struct WeightGradientsProblem {
  Chip chip;
  bool is_bf16;  // or f16
  std::int64_t rows;
  int count;
  std::int64_t m[kMostWeightGradients], n[kMostWeightGradients];
};

// How blocks of threads work: a cluster computes `shared` x `shared` tiles of a d_w, a tile by `parts`
// blocks, each of which takes a part of the rows of d_y and x. Tiles side by side share what is read of d_y,
// those above each other what is read of x. A block has a warpgroup for each 64 rows of the tile, and one of
// which a thread copies. Shared memory holds `stages` of `depth` of the rows of d_y and x at a time.
struct WeightGradientTile {
  int warpgroups;
  int columns;  // 128 or 192
  int stages;
  int parts;       // 1, 2 or 4
  int shared = 1;  // or 2

  static constexpr int depth = 64;
  static constexpr int panel_bytes = 64 * depth * 2;  // of 64 columns of an operand
  static constexpr int barrier_bytes = 256;
  static constexpr int piece_rows = 64;  // of a warpgroup

  HYDRAC_FN constexpr int rows() const { return warpgroups * 64; }
  HYDRAC_FN constexpr int piece_columns() const { return columns / parts; }    // that a block finishes
  HYDRAC_FN constexpr int cluster() const { return parts * shared * shared; }  // blocks of it
  HYDRAC_FN constexpr int copied_rows() const { return depth / shared; }       // of d_y and x, by one copy
  HYDRAC_FN constexpr int threads() const { return (warpgroups + 1) * 128; }
  // Of each thread when the kernel starts. With three warpgroups that compute, the other one gives them some.
  HYDRAC_FN constexpr int even_registers() const { return 65536 / threads() / 8 * 8; }
  HYDRAC_FN constexpr bool moves_registers() const { return warpgroups > 2; }
  HYDRAC_FN constexpr int registers() const {
    return ((warpgroups + 1) * even_registers() - other_registers) / warpgroups / 8 * 8;
  }
  static constexpr int other_registers = 32;
  HYDRAC_FN constexpr int stage_bytes() const { return (rows() + columns) / 64 * panel_bytes; }
  HYDRAC_FN constexpr int shared_bytes() const { return stages * stage_bytes() + barrier_bytes; }
};

HYDRAC_FN constexpr bool weight_gradients_support(const WeightGradientsProblem& p) {
  if (p.chip.capability != 90 || p.rows <= 0 || p.count < 1 || p.count > kMostWeightGradients) return false;
  for (int i = 0; i < p.count; ++i) {
    if (p.m[i] <= 0 || p.n[i] <= 0 || p.m[i] % 8 != 0 || p.n[i] % 8 != 0) return false;
  }
  return true;
}

HYDRAC_FN constexpr int weight_gradient_steps(std::int64_t rows) {
  return static_cast<int>((rows + WeightGradientTile::depth - 1) / WeightGradientTile::depth);
}

// Clusters for a gradient, and those side by side.
HYDRAC_FN constexpr int weight_gradient_clusters_across(std::int64_t n, WeightGradientTile tile) {
  const int columns = tile.columns * tile.shared;
  return static_cast<int>((n + columns - 1) / columns);
}

HYDRAC_FN constexpr int weight_gradient_clusters(std::int64_t m, std::int64_t n, WeightGradientTile tile) {
  const int rows = tile.rows() * tile.shared;
  return static_cast<int>((m + rows - 1) / rows) * weight_gradient_clusters_across(n, tile);
}

HYDRAC_FN constexpr int weight_gradient_clusters(const WeightGradientsProblem& p, WeightGradientTile tile) {
  int clusters = 0;
  for (int i = 0; i < p.count; ++i) clusters += weight_gradient_clusters(p.m[i], p.n[i], tile);
  return clusters;
}

// Pieces of a gradient, row by row: what a warpgroup finishes, and of which it sums the squares.
HYDRAC_FN constexpr int weight_gradient_pieces(std::int64_t m, std::int64_t n, WeightGradientTile tile) {
  return static_cast<int>((m + tile.piece_rows - 1) / tile.piece_rows *
                          ((n + tile.piece_columns() - 1) / tile.piece_columns()));
}

HYDRAC_FN constexpr int weight_gradient_pieces(const WeightGradientsProblem& p, WeightGradientTile tile) {
  int pieces = 0;
  for (int i = 0; i < p.count; ++i) pieces += weight_gradient_pieces(p.m[i], p.n[i], tile);
  return pieces;
}

// As measured in whole steps on an H200, on the second branch: one wave of small tiles where that suffices.
HYDRAC_FN constexpr WeightGradientTile weight_gradients_tile(const WeightGradientsProblem& p) {
  constexpr WeightGradientTile low{1, 128, 8, 1};
  if (weight_gradient_clusters(p, low) <= p.chip.multiprocessors) return low;
  int side = 384;  // every gradient is made of squares of this size
  for (int i = 0; i < p.count; ++i) {
    while (p.m[i] % side != 0 || p.n[i] % side != 0) side /= 2;
  }
  if (weight_gradient_steps(p.rows) < 2 || side < 192) return {2, 128, 6, 1};
  return {3, 192, 4, 2, side / 192};
}

// Whether the kernel is faster than a library's matmuls, one after the other, as measured in whole steps on
// an H200: a step of tiny-series takes 13% less, one of char-small 3%, one of gpt2-124m no less.
HYDRAC_FN constexpr bool weight_gradients_pay(const WeightGradientsProblem& p) {
  std::int64_t elements = 0;
  for (int i = 0; i < p.count; ++i) elements += p.m[i] * p.n[i];
  return weight_gradients_support(p) && p.rows >= 2048 && elements <= 2 << 20;
}

HYDRAC_FN constexpr MatmulLaunch weight_gradients_launch(const WeightGradientsProblem& p,
                                                         WeightGradientTile tile) {
  return {static_cast<unsigned>(weight_gradient_clusters(p, tile) * tile.cluster()), tile.threads(),
          tile.cluster(), 1, static_cast<std::uint64_t>(tile.shared_bytes())};
}

// Of d_y or x [rows,width].
HYDRAC_FN constexpr MatmulMap weight_gradients_map(std::int64_t rows, std::int64_t width,
                                                   WeightGradientTile tile) {
  return {{width, rows}, width * 2, {64, tile.copied_rows()}};
}

}  // namespace hydrac::cuda
