// The warp of a product's block that starts the copies of operands to shared memory.
#pragma once
#include "cuda/product/shared.cuh"
#include "cuda/product/tiles.cuh"

namespace hydrac::cuda {

// Columns `share` (0 or 1) of the tile's two halves of b, for this block or, in a cluster, for both.
template <class Config>
__device__ __forceinline__ void copy_half_of_b(const ProductShared<Config>& shared, const TensorMap& b, int stage,
                                               int half, int column, int depth) {
  constexpr int kPanels = Config::b_transposed ? 1 : Config::half_columns / 64;
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
    const int first = column + half * Config::half_distance + panel * 64;
    const int x = Config::b_transposed ? depth : first, y = Config::b_transposed ? first : depth;
    const std::uint32_t to =
        shared.b(stage) + half * Config::half_b_bytes + panel * (Config::half_b_bytes / kPanels);
    if constexpr (Config::tile.cluster == 1) {
      copy_box(to, b, x, y, shared.full(stage));
    } else {
      copy_box_to(3, to, b, x, y, shared.full(stage));
    }
  }
}

// By one thread: all tiles of the block, as far ahead as there are stages. In a cluster each block brings its
// rows of a and half of the columns of b, which the blocks have in common.
template <class Config>
__device__ __forceinline__ void copy_operands(const ProductShared<Config>& shared,
                                              const ProductTiles<Config>& tiles, const TensorMap& a,
                                              const TensorMap& b, [[maybe_unused]] int rank) {
  ProductStage<Config> stage;
#pragma unroll 1
  for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step()) {
    const ProductPlace place = tiles.place(tile);
#pragma unroll 1
    for (int k = 0; k < Config::depth_tiles; ++k) {
      const int depth = k * ProductTile::depth;
      barrier_wait(shared.empty(stage.index), stage.parity ^ 1);
      barrier_expect(shared.full(stage.index), Config::stage_bytes);
      copy_box(shared.a(stage.index), a, depth, place.row, shared.full(stage.index));
      if constexpr (Config::tile.cluster == 1) {
        copy_half_of_b(shared, b, stage.index, 0, place.column, depth);
        copy_half_of_b(shared, b, stage.index, 1, place.column, depth);
      } else {
        copy_half_of_b(shared, b, stage.index, rank, place.column, depth);
      }
      stage.advance();
    }
  }
}

}  // namespace hydrac::cuda
