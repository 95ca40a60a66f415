// Shared memory of a matmul's block.
#pragma once
#include "cuda/barrier.cuh"
#include "cuda/matmul/config.cuh"

namespace hydrac::cuda {

// Stages of operands, rows of a before columns of b; each warpgroup's results on their way to the epilogue;
// barriers. Operands are rows of 128 bytes, swizzled. Results are rows of the tile, whose 16-byte chunks are
// permuted by the row so that both sides touch all banks once.
template <class Config>
struct MatmulShared {
  static constexpr int stages = Config::tile.stages;
  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t a(int stage) const {
    return base + stage * Config::tile.stage_bytes();
  }
  __device__ __forceinline__ std::uint32_t b(int stage) const { return a(stage) + Config::a_bytes; }
  __device__ __forceinline__ std::uint32_t results(int warpgroup) const {
    return a(stages) + warpgroup * Config::tile.result_bytes();
  }

  // Of a stage: its copies have arrived; the warpgroups that read it, in all blocks whose copies go there
  // too, are done.
  __device__ __forceinline__ std::uint32_t full(int stage) const { return results(2) + stage * 8; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const { return full(stages + stage); }

  // By one thread.
  __device__ __forceinline__ void create_barriers() const {
    for (int stage = 0; stage < stages; ++stage) {
      barrier::init(full(stage), 1);
      barrier::init(empty(stage), Config::tile.cluster);
    }
    barrier::publish();
  }

 private:
  static_assert(2 * stages * 8 <= MatmulTile::barrier_bytes);
};

// Which stage is next, and the parity of its current phase.
template <class Config>
struct MatmulStage {
  int index = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++index == Config::tile.stages) index = 0, parity ^= 1;
  }
  // Over the stages of a whole tile.
  __device__ __forceinline__ void skip_tile() {
    index += Config::depth_tiles % Config::tile.stages;
    parity ^= Config::depth_tiles / Config::tile.stages % 2;
    if (index >= Config::tile.stages) index -= Config::tile.stages, parity ^= 1;
  }
};

}  // namespace hydrac::cuda
