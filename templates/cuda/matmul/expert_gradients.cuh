// Weight gradients of experts on Hopper's tensor cores (sm_90a): d_w[e] [m,n] = d_y^T . x over the rows of
// d_y [rows,m] and x [rows,n] from offsets[e] to offsets[e + 1], of 16-bit storage. The grid is fixed; only
// the device knows how many rows an expert has.
//
// Blocks stay and take tile after tile, a fixed share each, through all experts. Two consumer warpgroups take
// turns: one multiplies its tile while the other writes the one before, from registers. Blocks of a cluster
// have tiles one below the other, of the same steps, and each brings half of the rows of x to both. Every run
// gives the same bits.
#pragma once
#include "cuda/matmul/expert_gradient_operands.cuh"
#include "cuda/matmul/expert_gradients.h"
#include "cuda/matmul/mainloop.cuh"
#include "cuda/matmul/operands.cuh"
#include "cuda/matmul/pipeline.cuh"
#include "cuda/previous_kernel.cuh"
#include "cuda/tensor_copy.cuh"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// A tile of a block: of which expert, its first row and column in d_w, and the steps over the expert's rows.
struct ExpertGradientWork {
  int expert, row, column;
  int first_row, steps;
};

// Work number `at` of block `rank` of a cluster.
template <class Config>
__device__ __forceinline__ ExpertGradientWork expert_gradient_work(const int* offsets, int at, int rank) {
  const int expert = at / Config::expert_tiles, tile = at % Config::expert_tiles;
  const int first = offsets[expert];
  return {expert, (tile / Config::across * Config::tile.cluster + rank) * ExpertGradientTile::rows,
          tile % Config::across * Config::tile.columns, first,
          (offsets[expert + 1] - first) / ExpertGradientTile::depth};
}

// By one thread: all steps of one tile.
template <class Config>
__device__ __forceinline__ void copy_steps(const ExpertGradientOperands<Config>& operands,
                                           PipelineStage<Config::tile.stages>& stage,
                                           const ExpertGradientWork& work, const TensorMap& d_y,
                                           const TensorMap& x, int rank) {
  using Operands = ExpertGradientOperands<Config>;
  constexpr int depth = ExpertGradientTile::depth, panel = ExpertGradientTile::panel_bytes,
                share = depth / Config::tile.cluster;
  const auto pipeline = operands.pipeline();
#pragma unroll 1
  for (int step = 0; step < work.steps; ++step, stage.advance()) {
    const int row = work.first_row + step * depth;
    const std::uint32_t full = pipeline.full(stage.index);
    pipeline.begin_fill(stage, Config::tile.stage_bytes());
#pragma unroll
    for (int i = 0; i < Operands::left_panels; ++i)
      copy_box(operands.left(stage.index) + i * panel, d_y, work.row + i * 64, row, full);
#pragma unroll
    for (int i = 0; i < Operands::right_panels; ++i)
      copy_operand<Config::tile.cluster>(operands.right(stage.index) + i * panel + rank * share * 128, x,
                                         work.column + i * 64, row + rank * share, full);
  }
}

// Writes sum(part, fragment, element) where they lie in the gradient of the tile's expert, with a hint that
// keeps L2 for the operands: 16% faster. Nothing waits for what is there: L2 adds to it, each element once.
template <class Config, class Sum>
__device__ __forceinline__ void write_gradient(typename Config::Gradient* d_w, const ExpertGradientWork& work,
                                               Sum sum) {
  using Gradient = typename Config::Gradient;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
  for (int half = 0; half < 2 * ExpertGradientTile::rows / 64; ++half) {
    const int row = work.row + half / 2 * 64 + warp * 16 + lane / 4 + half % 2 * 8;
    if (row >= Config::m) continue;
    Gradient* const to = d_w + (static_cast<std::int64_t>(work.expert) * Config::m + row) * Config::n;
#pragma unroll
    for (int n = 0; n < Config::tile.columns / 8; ++n) {
      const int column = work.column + n * 8 + lane % 4 * 2;
      if (column >= Config::n) continue;
      const float x[2] = {sum(half / 2, n, half % 2 * 2), sum(half / 2, n, half % 2 * 2 + 1)};
      if constexpr (Config::accumulate) {
        ptx::add_to_memory(to + column, x);
      } else if constexpr (sizeof(Gradient) == sizeof(float)) {
        ptx::store_once(to + column, x);
      } else {
        ptx::store_once(to + column, ptx::pack<Gradient>(x[0], x[1]));
      }
    }
  }
}

// By one consumer: every second one of the block's tiles that have rows.
template <class Config>
__device__ __forceinline__ void multiply_tiles(const ExpertGradientOperands<Config>& operands,
                                               const int* offsets, typename Config::Gradient* d_w,
                                               int consumer, int rank, int first, int step) {
  PipelineStage<Config::tile.stages> stage;
  int turn = 0;  // of the next tile
  if (consumer == 1) give_turn(0);
#pragma unroll 1
  for (int at = first; at < Config::experts * Config::expert_tiles; at += step) {
    const ExpertGradientWork work = expert_gradient_work<Config>(offsets, at, rank);
    if (work.steps == 0) {
      if (!Config::accumulate && consumer == 0)
        write_gradient<Config>(d_w, work, [](int, int, int) { return 0.0f; });
      continue;
    }
    const bool is_mine = turn == consumer;
    turn ^= 1;
    if (!is_mine) {
      stage.skip(work.steps);
      continue;
    }
    Accumulators<typename Config::Storage, ExpertGradientTile::rows / 64, Config::tile.columns> sums;
    wait_turn(consumer);
    sums.start(operands, stage, work.steps);
    give_turn(1 - consumer);
    sums.finish(operands, work.steps);
    write_gradient<Config>(d_w, work, [&](int part, int n, int e) { return sums.at[part][n][e]; });
  }
  if (turn == consumer) wait_turn(consumer);  // takes the last one, so that no barrier is left half full
}

// Launch: expert_gradients_launch(problem, tile), with __cluster_dims__(its cluster, 1, 1) where that is not
// 1 and __launch_bounds__(threads, 1). The maps are kernel parameters, `const __grid_constant__`, encoded as
// expert_gradients_map_d_y() and _x() say. Waits for the previous kernel itself.
template <class Config>
__device__ __forceinline__ void expert_gradients(const TensorMap& d_y, const TensorMap& x, const int* offsets,
                                                 typename Config::Gradient* d_w) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  constexpr ExpertGradientTile tile = Config::tile;
  const ExpertGradientOperands<Config> operands{ptx::shared_address(shared_memory)};
  const int rank = static_cast<int>(cluster_rank());
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  const int first = static_cast<int>(blockIdx.x) / tile.cluster,
            step = static_cast<int>(gridDim.x) / tile.cluster;
  if (threadIdx.x == 0) {
    prefetch_map(d_y);
    prefetch_map(x);
    operands.pipeline().create_barriers(tile.cluster);
    barrier::publish();
  }
  cluster_sync();  // all blocks' barriers are initialized before one copies to another
  wait_for_previous_kernel();
  launch_next_kernel();
  if (warpgroup < tile.consumers) {
    ptx::grow_registers<consumer_registers(tile.consumers)>();
    multiply_tiles(operands, offsets, d_w, warpgroup, rank, first, step);
  } else {
    ptx::shrink_registers<kProducerRegisters>();
    if (threadIdx.x == tile.consumers * 128) {
      PipelineStage<tile.stages> stage;
#pragma unroll 1
      for (int at = first; at < Config::experts * Config::expert_tiles; at += step)
        copy_steps(operands, stage, expert_gradient_work<Config>(offsets, at, rank), d_y, x, rank);
    }
    __syncwarp();  // the warp has converged before it arrives
  }
  // A block must stay until its neighbour's copies and arrivals have reached it.
  cluster_sync();
}

}  // namespace hydrac::cuda
