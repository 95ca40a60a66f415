// The compile-time description of a kernel of weight gradients, and the shared memory of its block.
#pragma once
#include "cuda/barrier.cuh"
#include "cuda/tensor_copy.cuh"
#include "cuda/weight_gradients/geometry.h"

namespace hydrac::cuda {

// Storage is bf16 or f16; `accumulate`: the gradients are added to what is there; `squares`: the squares of
// what is written are summed.
template <class Storage_, std::int64_t rows_, bool accumulate_, bool squares_, WeightGradientTile tile_>
struct WeightGradientsConfig {
  using Storage = Storage_;
  static constexpr bool accumulate = accumulate_, squares = squares_;
  static constexpr WeightGradientTile tile = tile_;
  static constexpr int steps = weight_gradient_steps(rows_);
  static_assert(steps >= tile.parts);
};

// One of them: d_w [m,n] = d_y^T . x. The maps are kernel parameters, `const __grid_constant__`.
struct WeightGradient {
  const TensorMap* d_y;
  const TensorMap* x;
  float* d_w;
  int m, n;
};

// Stages of operands, panels of 64 columns of d_y before those of x: rows of 128 bytes, swizzled; barriers; a
// number for each warp.
// When all matmuls are done, what the other blocks of the cluster leave lies where the stages were.
template <class Config>
struct WeightGradientShared {
  static constexpr int stages = Config::tile.stages;
  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t d_y(int stage) const {
    return base + stage * Config::tile.stage_bytes();
  }
  __device__ __forceinline__ std::uint32_t x(int stage) const {
    return d_y(stage) + Config::tile.warpgroups * WeightGradientTile::panel_bytes;
  }
  // Of a stage: its copies have arrived; the warpgroups that read it, of all blocks that the copies of this
  // one go to, are done.
  __device__ __forceinline__ std::uint32_t full(int stage) const { return d_y(stages) + stage * 8; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const { return full(stages + stage); }

  // Of the warps of a warpgroup, 4 bytes each.
  __device__ __forceinline__ std::uint32_t sums(int warpgroup) const {
    return empty(stages) + warpgroup * 16;
  }

  // Blocks that share d_y or x with this one, itself included.
  static constexpr int kPeers = 2 * Config::tile.shared - 1;

  // By one thread.
  __device__ __forceinline__ void create_barriers() const {
    for (int stage = 0; stage < stages; ++stage) {
      barrier::init(full(stage), 1);
      barrier::init(empty(stage), Config::tile.warpgroups * kPeers);
    }
    barrier::publish();
  }

 private:
  static_assert(2 * stages * 8 + Config::tile.warpgroups * 16 <= WeightGradientTile::barrier_bytes);
};

// Which stage is next, and the parity of its current phase.
template <class Config>
struct WeightGradientStage {
  int index = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++index == Config::tile.stages) index = 0, parity ^= 1;
  }
};

// A block's place in its cluster: which part of the rows it takes, and which of the tiles it computes.
template <class Config>
struct WeightGradientPlace {
  static constexpr int shared = Config::tile.shared;
  int part, down, across;

  __device__ __forceinline__ static WeightGradientPlace of_block() {
    const int rank = static_cast<int>(blockIdx.x) % Config::tile.cluster();
    return {rank / (shared * shared), rank / shared % shared, rank % shared};
  }
  __device__ __forceinline__ int rank() const { return (part * shared + down) * shared + across; }
  // The block that is elsewhere in one of them only.
  __device__ __forceinline__ int rank_of_part(int other) const {
    return WeightGradientPlace{other, down, across}.rank();
  }
  __device__ __forceinline__ int rank_down(int other) const {
    return WeightGradientPlace{part, other, across}.rank();
  }
  __device__ __forceinline__ int rank_across(int other) const {
    return WeightGradientPlace{part, down, other}.rank();
  }
};

// What a block computes: in which gradient its tile lies, the tile's first row and column, and the steps
// [first, last) of the rows of d_y and x. `pieces`: of the gradients before that one.
struct WeightGradientWork {
  int gradient, row, column;
  int first, last;
  int pieces;
};

// Clusters count through one gradient after the other, within it along its rows.
template <class Config, int count>
__device__ __forceinline__ WeightGradientWork weight_gradient_work(const WeightGradient (&gradients)[count],
                                                                   const WeightGradientPlace<Config>& place) {
  constexpr WeightGradientTile shape = Config::tile;
  int cluster = static_cast<int>(blockIdx.x) / shape.cluster();
  WeightGradientWork work{
      0, 0, 0, Config::steps * place.part / shape.parts, Config::steps * (place.part + 1) / shape.parts, 0};
#pragma unroll
  for (int i = 0; i + 1 < count; ++i) {
    const int clusters = weight_gradient_clusters(gradients[i].m, gradients[i].n, shape);
    if (work.gradient == i && cluster >= clusters) {
      cluster -= clusters, ++work.gradient;
      work.pieces += weight_gradient_pieces(gradients[i].m, gradients[i].n, shape);
    }
  }
  const int width = weight_gradient_clusters_across(gradients[work.gradient].n, shape);
  work.row = (cluster / width * shape.shared + place.down) * shape.rows();
  work.column = (cluster % width * shape.shared + place.across) * shape.columns;
  return work;
}

// Which of all pieces the warpgroup finishes whose first row this is; -1 if its piece lies outside.
template <class Config>
__device__ __forceinline__ int weight_gradient_piece(const WeightGradient& gradient,
                                                     const WeightGradientWork& work, int row, int part) {
  constexpr WeightGradientTile shape = Config::tile;
  const int column = work.column + part * shape.piece_columns();
  if (row >= gradient.m || column >= gradient.n) return -1;
  const int across = (gradient.n + shape.piece_columns() - 1) / shape.piece_columns();
  return work.pieces + row / shape.piece_rows * across + column / shape.piece_columns();
}

}  // namespace hydrac::cuda
