// The thread of a product's block that starts the copies of operands to shared memory.
#pragma once
#include "cuda/product/shared.cuh"
#include "cuda/product/tiles.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// By one thread: all tiles of the block, as far ahead as there are stages. In a cluster each block brings its
// columns of b and a share of the rows of a, which the blocks have in common.
template <class Config>
__device__ __forceinline__ void copy_operands(const ProductShared<Config>& shared,
                                              const ProductTiles<Config>& tiles, const TensorMap& a,
                                              const TensorMap& b, int rank) {
  constexpr int kShare = Config::tile.rows / Config::tile.cluster;
  ProductStage<Config> stage;
#pragma unroll 1
  for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step()) {
    const ProductPlace place = tiles.place(tile);
#pragma unroll 1
    for (int k = 0; k < Config::depth_tiles; ++k, stage.advance()) {
      const int depth = k * ProductTile::depth;
      const std::uint32_t full = shared.full(stage.index);
      barrier::wait_patiently(shared.empty(stage.index), stage.parity ^ 1);
      barrier::expect(full, Config::tile.stage_bytes());
      copy_box_to(3, shared.a(stage.index) + rank * (Config::a_bytes / 2), a, depth,
                  place.row + rank * kShare, full);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = place.column + half * Config::half_distance;
        copy_box(shared.b(stage.index) + half * Config::half_b_bytes, b,
                 Config::b_transposed ? depth : column, Config::b_transposed ? column : depth, full);
      }
    }
  }
}

}  // namespace hydrac::cuda
