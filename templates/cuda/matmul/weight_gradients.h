// Which weight gradients one kernel computes together and how it is launched: constexpr functions that the
// compiler calls to plan launches and that the kernel calls to size its tiles. Plain C++; no CUDA.
#pragma once
#include "cuda/matmul/problem.h"

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

// How blocks of threads work: a cluster computes a tile of a d_w, each of its `split` blocks from a part of
// the rows of d_y and x (split-k). A block has a consumer warpgroup for each 64 rows of the tile, and a
// producer.
struct WeightGradientTile {
  int consumers;
  int columns;  // 128 or 192
  int stages;   // of the pipeline, each with `depth` of the rows of d_y and x
  int split;    // 1, 2 or 4

  static constexpr int depth = MatmulTile::depth;
  static constexpr int panel_bytes = MatmulTile::panel_bytes;  // of 64 columns of an operand, in a stage
  static constexpr int barrier_bytes = MatmulTile::barrier_bytes;

  HYDRAC_FN constexpr int rows() const { return consumers * 64; }
  HYDRAC_FN constexpr int threads() const { return (consumers + 1) * 128; }
  // Two consumers have enough registers when the kernel starts.
  HYDRAC_FN constexpr bool moves_registers() const { return consumers > 2; }
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

// Tiles of one gradient, and of all.
HYDRAC_FN constexpr int weight_gradient_tiles(std::int64_t m, std::int64_t n, WeightGradientTile tile) {
  return static_cast<int>(tiles_of(m, tile.rows()) * tiles_of(n, tile.columns));
}
HYDRAC_FN constexpr int weight_gradient_tiles(const WeightGradientsProblem& p, WeightGradientTile tile) {
  int tiles = 0;
  for (int i = 0; i < p.count; ++i) tiles += weight_gradient_tiles(p.m[i], p.n[i], tile);
  return tiles;
}

// As measured in whole steps on an H200, on the side stream: one wave of small tiles where that suffices.
HYDRAC_FN constexpr WeightGradientTile weight_gradients_tile(const WeightGradientsProblem& p) {
  constexpr WeightGradientTile low{1, 128, 8, 1};
  if (weight_gradient_tiles(p, low) <= p.chip.multiprocessors) return low;
  bool is_square = tiles_of(p.rows, WeightGradientTile::depth) >= 2;  // of tiles [192,192]
  for (int i = 0; i < p.count; ++i) is_square &= p.m[i] % 192 == 0 && p.n[i] % 192 == 0;
  return is_square ? WeightGradientTile{3, 192, 4, 2} : WeightGradientTile{2, 128, 6, 1};
}

// True if the kernel is faster than a library's matmuls, one after the other, as measured in whole steps on
// an H200: a step of tiny-series takes 11% less, one of char-small 5%, one of gpt2-124m no less.
HYDRAC_FN constexpr bool weight_gradients_pay(const WeightGradientsProblem& p) {
  std::int64_t elements = 0;
  for (int i = 0; i < p.count; ++i) elements += p.m[i] * p.n[i];
  return weight_gradients_support(p) && p.rows >= 2048 && elements <= 2 << 20;
}

HYDRAC_FN constexpr MatmulLaunch weight_gradients_launch(const WeightGradientsProblem& p,
                                                         WeightGradientTile tile) {
  return {static_cast<unsigned>(weight_gradient_tiles(p, tile) * tile.split), tile.threads(), tile.split,
          static_cast<std::uint64_t>(tile.shared_bytes())};
}

// Map for the loads of d_y or x [rows,width].
HYDRAC_FN constexpr MatmulMap weight_gradients_map(std::int64_t rows, std::int64_t width) {
  return {{width, rows}, {64, WeightGradientTile::depth}};
}

}  // namespace hydrac::cuda
