// Shared memory of a product's block.
#pragma once
#include "cuda/product/barrier.cuh"
#include "cuda/product/config.cuh"

namespace hydrac::cuda {

// Stages of operands, the rows of a before the columns of b; the results of one tile on their way to the
// epilogue; barriers; the epilogue's sums, if it has any. Operands are rows of 128 bytes, swizzled. Results
// are the tile's rows, whose 16-byte chunks are permuted by the row so that both sides touch all banks once.
template <class Config>
struct ProductShared {
  static constexpr int stages = Config::tile.stages;
  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t a(int stage) const { return base + stage * Config::stage_bytes; }
  __device__ __forceinline__ std::uint32_t b(int stage) const { return a(stage) + Config::a_bytes; }
  __device__ __forceinline__ std::uint32_t results() const { return base + stages * Config::stage_bytes; }
  __device__ __forceinline__ std::uint32_t sums() const { return barriers() + ProductTile::barrier_bytes; }

  // Of a stage: its copies have arrived; all warpgroups that read it, in all blocks whose copies go there
  // too, are done.
  __device__ __forceinline__ std::uint32_t full(int stage) const { return barriers() + stage * 8; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const { return full(stages + stage); }
  // Of a half of the results, the rows of one warpgroup: they are written; the epilogue has read them.
  __device__ __forceinline__ std::uint32_t results_full(int half) const { return full(2 * stages + half); }
  __device__ __forceinline__ std::uint32_t results_empty(int half) const {
    return full(2 * stages + 2 + half);
  }

  // By one thread.
  __device__ __forceinline__ void create_barriers() const {
    for (int stage = 0; stage < stages; ++stage) {
      barrier_create(full(stage), 1);
      barrier_create(empty(stage), 2 * Config::tile.cluster);
    }
    for (int half = 0; half < 2; ++half) {
      barrier_create(results_full(half), ProductTile::product_warps / 2);
      barrier_create(results_empty(half), Config::tile.epilogue_warps);
    }
    barriers_publish();
  }

 private:
  static_assert((2 * stages + 4) * 8 <= ProductTile::barrier_bytes);

  __device__ __forceinline__ std::uint32_t barriers() const {
    return results() + Config::tile.result_bytes();
  }
};

// Which stage is next, and the parity of its current phase.
template <class Config>
struct ProductStage {
  int index = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++index == Config::tile.stages) index = 0, parity ^= 1;
  }
};

}  // namespace hydrac::cuda
