// Weight gradients of experts: tiles and launches, which the compiler plans and the kernel checks. Plain C++;
// no CUDA.
#pragma once
#include "cuda/matmul/problem.h"

namespace hydrac::cuda {

// d_w[e] [m,n] = d_y^T . x over the rows of expert e, of 16-bit d_y [rows,m] and x [rows,n].
struct ExpertGradientsProblem {
  Chip chip;
  bool is_bf16;  // or f16
  std::int64_t rows;
  int experts;
  std::int64_t m, n;
};

// A block's tile of a d_w. The blocks of a cluster lie one below the other and share x.
struct ExpertGradientTile {
  int columns;  // 128 or 192
  int stages;   // of the pipeline, each with `depth` of the rows of d_y and x
  int cluster;  // 1 or 2

  static constexpr int rows = 128;
  static constexpr int depth = MatmulTile::depth;
  static constexpr int panel_bytes = MatmulTile::panel_bytes;  // of 64 columns of an operand, in a stage
  static constexpr int consumers = 2;
  static constexpr int threads = (consumers + 1) * 128;

  HYDRAC_FN constexpr int stage_bytes() const { return (rows + columns) / 64 * panel_bytes; }
  HYDRAC_FN constexpr int shared_bytes() const { return stages * stage_bytes() + MatmulTile::barrier_bytes; }
};

HYDRAC_FN constexpr bool expert_gradients_support(const ExpertGradientsProblem& p) {
  return p.chip.capability == 90 && p.rows > 0 && p.rows % kExpertRows == 0 && p.experts > 0 && p.m > 0 &&
         p.n > 0 && p.m % 8 == 0 && p.n % 8 == 0;
}

// Wide tiles read the operands less often, where few of their columns lie behind the last one.
HYDRAC_FN constexpr ExpertGradientTile expert_gradients_tile(const ExpertGradientsProblem& p) {
  const bool is_wide = tiles_of(p.n, 192) * 192 * 16 <= tiles_of(p.n, 128) * 128 * 17;
  return {is_wide ? 192 : 128, is_wide ? 5 : 6, p.m > ExpertGradientTile::rows ? 2 : 1};
}

// Tiles of one expert, each of a cluster.
HYDRAC_FN constexpr int expert_gradient_tiles(std::int64_t m, std::int64_t n,
                                              const ExpertGradientTile& tile) {
  return static_cast<int>(tiles_of(m, std::int64_t{tile.rows} * tile.cluster) * tiles_of(n, tile.columns));
}

HYDRAC_FN constexpr MatmulLaunch expert_gradients_launch(const ExpertGradientsProblem& p,
                                                         const ExpertGradientTile& tile) {
  const int tiles = p.experts * expert_gradient_tiles(p.m, p.n, tile),
            most = p.chip.multiprocessors / tile.cluster;
  return {static_cast<unsigned>((tiles < most ? tiles : most) * tile.cluster), tile.threads, tile.cluster,
          static_cast<std::uint64_t>(tile.shared_bytes())};
}

// Maps for the loads of d_y and x; a block copies a share of x's rows for its cluster.
HYDRAC_FN constexpr MatmulMap expert_gradients_map_d_y(const ExpertGradientsProblem& p) {
  return {{p.m, p.rows}, {64, ExpertGradientTile::depth}};
}
HYDRAC_FN constexpr MatmulMap expert_gradients_map_x(const ExpertGradientsProblem& p,
                                                     const ExpertGradientTile& tile) {
  return {{p.n, p.rows}, {64, ExpertGradientTile::depth / tile.cluster}};
}

}  // namespace hydrac::cuda
