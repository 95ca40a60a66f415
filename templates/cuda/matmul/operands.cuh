// The producer of a matmul's block: the thread that starts the copies of operands to shared memory.
#pragma once
#include "cuda/matmul/shared.cuh"
#include "cuda/matmul/tile_scheduler.cuh"
#include "cuda/previous_kernel.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// Copies the map's box at (x, y) to this block, or to the same place of all `blocks` of the cluster.
template <int blocks>
__device__ __forceinline__ void copy_operand(std::uint32_t to, const TensorMap& map, int x, int y,
                                             std::uint32_t full) {
  if constexpr (blocks > 1) {
    copy_box_to((1 << blocks) - 1, to, map, x, y, full);
  } else {
    copy_box(to, map, x, y, full);
  }
}

// One tile's copies to a stage, from `depth` of k on. Of an operand that several blocks have in common, block
// `rank` brings its share, to all of them.
template <class Config>
struct OperandCopies {
  const TensorMap &map_a, &map_b;
  MatmulShared<Config> shared;
  MatmulPlace place;
  int rank;

  __device__ __forceinline__ void a(int stage, int depth) const {
    constexpr int rows = Config::tile.rows / Config::a_sharers;
    const int first = Config::a_sharers > 1 ? rank * rows : 0;
    const std::uint32_t to = shared.a(stage) + first * (MatmulTile::depth * 2);
    if constexpr (Config::reads_a_once) {
      copy_box_once(to, map_a, depth, place.row, shared.pipeline().full(stage));
    } else {
      copy_operand<Config::a_sharers>(to, map_a, depth, place.row + first, shared.pipeline().full(stage));
    }
  }
  __device__ __forceinline__ void b(int stage, int depth) const {
    constexpr int share = Config::tile.panels / Config::b_sharers;
#pragma unroll
    for (int i = 0; i < share; ++i) {
      const int panel = Config::b_sharers > 1 ? rank * share + i : i;
      const int column = place.column + panel * Config::panel_distance;
      copy_operand<Config::b_sharers>(shared.b(stage, panel), map_b, Config::b_transposed ? depth : column,
                                      place.b_row + (Config::b_transposed ? column : depth),
                                      shared.pipeline().full(stage));
    }
  }
};

// Operands of a matmul. Without a tail, tail_a and tail_b are not read; without experts, offsets.
struct MatmulMaps {
  const TensorMap &a, &b, &tail_a, &tail_b;
  const int* offsets = nullptr;
};

// The copies of `steps` stages from `stage` on, which moves behind them: of all k of the operands. What lies
// behind their last column or row of k arrives as zeros.
template <class Config>
__device__ __forceinline__ void copy_depth(const OperandCopies<Config>& copies,
                                           PipelineStage<Config::tile.stages>& stage, int steps) {
#pragma unroll 1
  for (int k = 0; k < steps; ++k, stage.advance()) {
    copies.shared.pipeline().begin_fill(stage, Config::tile.stage_bytes());
    copies.a(stage.index, k * MatmulTile::depth);
    copies.b(stage.index, k * MatmulTile::depth);
  }
}

// By one thread: all tiles of a persistent block, as far ahead as there are stages.
template <class Config>
__device__ __forceinline__ void copy_tiles(const MatmulShared<Config>& shared,
                                           const TileScheduler<Config>& tiles, const MatmulMaps& maps,
                                           int rank) {
  PipelineStage<Config::tile.stages> stage;
#pragma unroll 1
  for (int tile = tiles.first(); tile < tiles.count(); tile += tiles.step()) {
    MatmulPlace place = tiles.place(tile);
    if constexpr (Config::experts > 0) {
      place.b_row = expert_at<Config::experts>(maps.offsets, place.row) *
                    (Config::b_transposed ? Config::n : Config::k);
    }
    copy_depth<Config>({maps.a, maps.b, shared, place, rank}, stage, Config::depth_tiles);
    if constexpr (Config::has_tail) {
      copy_depth<Config>({maps.tail_a, maps.tail_b, shared, place, rank}, stage, Config::tail_tiles);
    }
  }
}

// By one thread: the only tile of block `rank` of a cluster, from `start` of k on. No kernel before this one
// writes b, so that the prologue loads as many stages of it as there are before it waits for that kernel.
template <class Config>
__device__ __forceinline__ void copy_tile(const MatmulShared<Config>& shared, const TensorMap& a,
                                          const TensorMap& b, const MatmulPlace& place, int rank,
                                          int start = 0) {
  constexpr int depth = MatmulTile::depth, bytes = Config::tile.stage_bytes();
  constexpr int first = Config::is_ring ? Config::tile.stages : Config::depth_tiles;
  const OperandCopies<Config> copies{a, b, shared, place, rank};
#pragma unroll 1
  for (int k = 0; k < first; ++k) {
    barrier::expect(shared.pipeline().full(k), bytes);
    copies.b(k, start + k * depth);
  }
  wait_for_previous_kernel();
  launch_next_kernel();
#pragma unroll 1
  for (int k = 0; k < first; ++k) copies.a(k, start + k * depth);
  if constexpr (Config::is_ring) {
    PipelineStage<Config::tile.stages> stage;
    stage.parity = 1;  // the second time around
#pragma unroll 1
    for (int k = first; k < Config::depth_tiles; ++k, stage.advance()) {
      shared.pipeline().begin_fill(stage, bytes);
      copies.a(stage.index, start + k * depth);
      copies.b(stage.index, start + k * depth);
    }
  }
}

}  // namespace hydrac::cuda
