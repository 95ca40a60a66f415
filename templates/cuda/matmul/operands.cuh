// The thread of a matmul's block that starts the copies of operands to shared memory.
#pragma once
#include "cuda/matmul/shared.cuh"
#include "cuda/matmul/tiles.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// Copies the map's box at (x, y) to this block, or to the same place of both blocks of the cluster.
template <bool to_both>
__device__ __forceinline__ void copy_operand(std::uint32_t to, const TensorMap& map, int x, int y,
                                             std::uint32_t full) {
  if constexpr (to_both) {
    copy_box_to(3, to, map, x, y, full);
  } else {
    copy_box(to, map, x, y, full);
  }
}

// What arrives in one stage: halves of a's rows and of b's columns.
template <class Config>
struct MatmulStageCopies {
  const TensorMap &map_a, &map_b;
  std::uint32_t to_a, to_b, full;
  int row, column, depth;

  template <bool to_both>
  __device__ __forceinline__ void a(int half) const {
    copy_operand<to_both>(to_a + half * (Config::a_bytes / 2), map_a, depth,
                          row + half * (Config::tile.rows / 2), full);
  }
  template <bool to_both>
  __device__ __forceinline__ void b(int half) const {
    const int first = column + half * Config::half_distance;
    copy_operand<to_both>(to_b + half * Config::half_b_bytes, map_b, Config::b_transposed ? depth : first,
                          Config::b_transposed ? first : depth, full);
  }
};

// By one thread: all tiles of the block, as far ahead as there are stages. Of the operand that a cluster's
// blocks have in common each brings one half, for both.
template <class Config>
__device__ __forceinline__ void copy_operands(const MatmulShared<Config>& shared,
                                              const MatmulTiles<Config>& tiles, const TensorMap& a,
                                              const TensorMap& b, int rank) {
  MatmulStage<Config> stage;
#pragma unroll 1
  for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step()) {
    const MatmulPlace place = tiles.place(tile);
#pragma unroll 1
    for (int k = 0; k < Config::depth_tiles; ++k, stage.advance()) {
      const std::uint32_t full = shared.full(stage.index);
      barrier::wait_patiently(shared.empty(stage.index), stage.parity ^ 1);
      barrier::expect(full, Config::tile.stage_bytes());
      const MatmulStageCopies<Config> copies{a,    b,         shared.a(stage.index), shared.b(stage.index),
                                             full, place.row, place.column,          k * MatmulTile::depth};
      if constexpr (Config::side_by_side) {
        copies.template a<true>(rank);
        copies.template b<false>(0);
        copies.template b<false>(1);
      } else {
        copies.template a<false>(0);
        copies.template a<false>(1);
        copies.template b<true>(rank);
      }
    }
  }
}

}  // namespace hydrac::cuda
