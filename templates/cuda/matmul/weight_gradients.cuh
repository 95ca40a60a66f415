// Weight gradients on Hopper's tensor cores (sm_90a): d_w [m,n] f32 = d_y^T . x for several pairs of d_y
// [rows,m] and x [rows,n] of 16-bit storage, in one kernel. The blocks of a cluster share a tile: each adds
// up some of the rows, then they exchange their sums through shared memory, and each writes a share of the
// columns. Every run gives the same bits.
#pragma once
#include "cuda/matmul/gradient_operands.cuh"
#include "cuda/matmul/mainloop.cuh"
#include "cuda/matmul/pipeline.cuh"
#include "cuda/matmul/weight_gradients.h"
#include "cuda/previous_kernel.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// One of them: d_w [m,n] = d_y^T . x. The maps are kernel parameters, `const __grid_constant__`.
struct WeightGradient {
  const TensorMap* d_y;
  const TensorMap* x;
  float* d_w;
  int m, n;
};

// A block's work: the gradient in which its tile lies, the tile's first row and column, and its part of the
// split of the steps over the rows of d_y and x.
struct WeightGradientWork {
  int gradient, row, column;
  int first_step, steps;
};

// Clusters count through one gradient after the other, within it along its rows.
template <class Config, int count>
__device__ __forceinline__ WeightGradientWork weight_gradient_work(const WeightGradient (&gradients)[count],
                                                                   int part) {
  constexpr WeightGradientTile shape = Config::tile;
  int tile = static_cast<int>(blockIdx.x) / shape.split;
  const int first = Config::steps * part / shape.split;
  WeightGradientWork work{0, 0, 0, first, Config::steps * (part + 1) / shape.split - first};
#pragma unroll
  for (int i = 0; i + 1 < count; ++i) {
    const int tiles = weight_gradient_tiles(gradients[i].m, gradients[i].n, shape);
    if (work.gradient == i && tile >= tiles) tile -= tiles, ++work.gradient;
  }
  const int width = static_cast<int>(tiles_of(gradients[work.gradient].n, shape.columns));
  work.row = tile / width * shape.rows();
  work.column = tile % width * shape.columns;
  return work;
}

// By one thread: all steps of the block, as far ahead as there are stages.
template <class Config>
__device__ __forceinline__ void copy_steps(const WeightGradientOperands<Config>& operands,
                                           const WeightGradient& gradient, const WeightGradientWork& work) {
  const TensorMap &d_y = *gradient.d_y, &x = *gradient.x;
  const auto pipeline = operands.pipeline();
  PipelineStage<Config::tile.stages> stage;
#pragma unroll 1
  for (int step = 0; step < work.steps; ++step, stage.advance()) {
    const int row = (work.first_step + step) * WeightGradientTile::depth;
    const std::uint32_t full = pipeline.full(stage.index);
    pipeline.begin_fill(stage, Config::tile.stage_bytes());
#pragma unroll
    for (int i = 0; i < Config::tile.consumers; ++i)
      copy_box(operands.panel(stage.index, i), d_y, work.row + i * 64, row, full);
#pragma unroll
    for (int i = 0; i < Config::tile.columns / 64; ++i)
      copy_box(operands.panel(stage.index, Config::tile.consumers + i), x, work.column + i * 64, row, full);
  }
}

// How the blocks of a cluster finish a tile whose parts they have: block `part` finishes the fragments from
// part * own on, to which the others send what they have of them, where the stages were.
template <class Config>
class SplitSums {
  using Sums = Accumulators<typename Config::Storage, 1, Config::tile.columns>;
  static constexpr int kSplit = Config::tile.split, kOwn = Sums::fragments / kSplit;
  static_assert(Config::tile.consumers * kSplit * kOwn * 128 * 16 <=
                Config::tile.stages * Config::tile.stage_bytes());

 public:
  __device__ __forceinline__ SplitSums(std::uint32_t base, int consumer, int part)
      : base_(base), consumer_(consumer), part_(part) {}

  // All blocks have read their stages.
  __device__ __forceinline__ void send(const Sums& sums) const {
#pragma unroll
    for (int other = 0; other < kSplit; ++other) {
      if (other == part_) continue;
      const std::uint32_t to = address_in(place_of(part_), other);
#pragma unroll
      for (int n = 0; n < kOwn; ++n) store_to_cluster(to + n * (128 * 16), sums.at[0][other * kOwn + n]);
    }
  }

  // Adds what the others have sent, in their order, and writes what lies in the gradient; `row` is the
  // consumer's first.
  __device__ __forceinline__ void finish(Sums& sums, const WeightGradient& gradient, int row,
                                         int column) const {
#pragma unroll
    for (int own = 0; own < kSplit; ++own) {
      if (own != part_) continue;
#pragma unroll
      for (int other = 0; other < kSplit; ++other) {
        if (other == own) continue;
        const std::uint32_t from = place_of(other);
#pragma unroll
        for (int n = 0; n < kOwn; ++n) {
          const auto sent = ptx::load_shared<4>(from + n * (128 * 16));
#pragma unroll
          for (int e = 0; e < 4; ++e) sums.at[0][own * kOwn + n][e] += float_from_bits(sent.at[e]);
        }
      }
      write(sums, gradient, row, column, own * kOwn);
    }
  }

 private:
  // Place of what this thread gets from another block.
  __device__ __forceinline__ std::uint32_t place_of(int from) const {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    return base_ + ((from * Config::tile.consumers + consumer_) * (kOwn * 128) + thread) * 16;
  }

  // The block's own fragments, from `first` on.
  __device__ __forceinline__ void write(const Sums& sums, const WeightGradient& gradient, int row, int column,
                                        int first) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + warp * 16 + lane / 4 + half * 8;
      if (r >= gradient.m) continue;
      float* const to = gradient.d_w + static_cast<std::int64_t>(r) * gradient.n;
#pragma unroll
      for (int n = 0; n < kOwn; ++n) {
        const int c = column + (first + n) * 8 + lane % 4 * 2;
        if (c >= gradient.n) continue;
        const float(&x)[4] = sums.at[0][first + n];
        Vector<float, 2> sum{{x[half * 2], x[half * 2 + 1]}};
        if constexpr (Config::accumulate) {
          const Vector<float, 2> before = load<2>(to + c);
          sum.at[0] += before.at[0], sum.at[1] += before.at[1];
        }
        store(to + c, sum);
      }
    }
  }

  const std::uint32_t base_;
  const int consumer_, part_;
};

// Launch: weight_gradients_launch(problem, tile), with __cluster_dims__(split, 1, 1) where that is not 1. The
// maps are encoded as weight_gradients_map() says. Waits for the previous kernel itself.
template <class Config, int count>
__device__ __forceinline__ void weight_gradients(const WeightGradient (&gradients)[count]) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  constexpr WeightGradientTile tile = Config::tile;
  const int consumer = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  const WeightGradientOperands<Config> operands{ptx::shared_address(shared_memory), consumer};
  const int part = static_cast<int>(blockIdx.x) % tile.split;
  const WeightGradientWork work = weight_gradient_work<Config>(gradients, part);
  const WeightGradient& gradient = gradients[work.gradient];
  if (threadIdx.x == 0) {
    prefetch_map(*gradient.d_y);
    prefetch_map(*gradient.x);
    operands.pipeline().create_barriers(tile.consumers);
    barrier::publish();
  }
  __syncthreads();  // barriers are initialized before anyone waits on them
  wait_for_previous_kernel();
  launch_next_kernel();
  if (consumer < tile.consumers) {
    if constexpr (tile.moves_registers()) ptx::grow_registers<consumer_registers(tile.consumers)>();
    Accumulators<typename Config::Storage, 1, tile.columns> sums;
    sums.compute(operands, work.steps);
    const SplitSums<Config> split(operands.base, consumer, part);
    if constexpr (tile.split > 1) {
      cluster_sync();  // no block reads its stages any longer
      split.send(sums);
      cluster_sync();  // the other blocks' sums have arrived
    }
    split.finish(sums, gradient, work.row + consumer * 64, work.column);
  } else {
    if constexpr (tile.moves_registers()) ptx::shrink_registers<kProducerRegisters>();
    if (threadIdx.x == tile.consumers * 128) copy_steps(operands, gradient, work);
    __syncwarp();  // the warp has converged before it arrives
    if constexpr (tile.split > 1) {
      cluster_sync();  // as the consumers: before sums are sent,
      cluster_sync();  // and when they have arrived
    }
  }
}

}  // namespace hydrac::cuda
