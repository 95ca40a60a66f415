// The thread of a block that starts the copies of operands to shared memory.
#pragma once
#include "cuda/stationary_matmul/shared.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// By one thread: all columns of b that the block has, then the rows of a, as far ahead as there are stages.
template <class Config>
__device__ __forceinline__ void copy_stationary_operands(const StationaryShared<Config>& shared,
                                                         const StationaryTiles<Config>& tiles,
                                                         const TensorMap& a, const TensorMap& b) {
  constexpr int depth = StationaryTile::depth;
  barrier::expect(shared.b_full(), Config::tile.b_bytes());
#pragma unroll 1
  for (int k = 0; k < Config::tile.depth_tiles; ++k) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = tiles.column() + half * Config::half_columns;
      copy_box(shared.b(k) + half * shared.half_b_bytes, b, Config::b_transposed ? k * depth : column,
               Config::b_transposed ? column : k * depth, shared.b_full());
    }
  }
  StationaryStage<Config> stage;
#pragma unroll 1
  for (int tile = 0; tile < tiles.count(); ++tile) {
#pragma unroll 1
    for (int k = 0; k < Config::tile.depth_tiles; ++k, stage.advance()) {
      const std::uint32_t full = shared.full(stage.index);
      barrier::wait_patiently(shared.empty(stage.index), stage.parity ^ 1);
      barrier::expect(full, StationaryTile::stage_bytes);
      copy_box(shared.a(stage.index), a, k * depth, tiles.row(tile), full);
    }
  }
}

}  // namespace hydrac::cuda
