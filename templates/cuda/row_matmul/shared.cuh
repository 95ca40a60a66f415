// The shared memory of a row matmul's block that has whole rows.
#pragma once
#include "cuda/barrier.cuh"
#include "cuda/ptx.cuh"
#include "cuda/row_matmul/config.cuh"

namespace hydrac::cuda {

// Stages of a and then b's columns, in rows of 128 bytes, swizzled. When all matmuls are done, the block's
// results lie in the last of their bytes: rows of the tile's panels, whose 16-byte chunks are permuted by the
// row so that both sides touch all banks once. The rest of them, which is free earlier, is the pool, for rows
// that the epilogue reads. Behind the stages: barriers, statistics of the rows, and sums over rows on their
// way between threads.
template <class Config_>
struct RowMatmulShared {
  using Config = Config_;
  static constexpr int stages = Config::tile.stages;
  static constexpr int stage_bytes = Config::tile.stage_bytes();
  static constexpr int a_bytes = Config::tile.rows * Config::tile.depth * 2;               // of a stage
  static constexpr int panel_bytes = Config::tile.panel_columns * Config::tile.depth * 2;  // of a stage
  static constexpr int pool_bytes = stages * stage_bytes - Config::rows * Config::n * 2;
  static constexpr int barriers_bytes = 512, statistics_bytes = RowMatmulTile::statistics * Config::rows * 4;
  static_assert(barriers_bytes + statistics_bytes + RowMatmulTile::exchange_bytes <=
                RowMatmulTile::epilogue_bytes);
  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t a(int stage) const { return base + stage * stage_bytes; }
  __device__ __forceinline__ std::uint32_t b(int panel, int stage) const {
    return a(stage) + a_bytes + panel * panel_bytes;
  }
  // Eight columns of one of the block's rows.
  __device__ __forceinline__ Vector<std::uint32_t, 4> get(int row, int column) const {
    return ptx::load_shared<4>(result(row, column));
  }
  __device__ __forceinline__ std::uint32_t result(int row, int column) const {
    constexpr int columns = Config::tile.panel_columns;
    return base + pool_bytes + (column / columns * Config::rows + row) * (columns * 2) +
           (column % columns / 8 ^ row % 8) * 16;
  }

  // Of a stage: its copies have arrived; the warpgroups that read it, in all blocks that the copies go to,
  // are done.
  __device__ __forceinline__ std::uint32_t full(int stage) const { return a(stages) + stage * 8; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const { return full(stages + stage); }
  // Statistics have arrived; what slot `slot` of the pool waits for.
  __device__ __forceinline__ std::uint32_t statistics_full() const { return full(2 * stages); }
  __device__ __forceinline__ std::uint32_t slot_full(int slot) const { return full(2 * stages + 1 + slot); }
  static constexpr int most_slots = barriers_bytes / barrier::kBytes - 2 * stages - 1;

  // From `base` on.
  static constexpr int statistics_offset = stages * stage_bytes + barriers_bytes;
  static constexpr int exchange_offset = statistics_offset + statistics_bytes;

  // By one thread, which then publishes them.
  __device__ __forceinline__ void create_barriers() const {
    for (int stage = 0; stage < stages; ++stage) {
      barrier::init(full(stage), 1);
      barrier::init(empty(stage), Config::tile.warpgroups() * Config::tile.down);
    }
  }

  // The phase of `empty` in which the last matmuls with a stage end; -1 of one that is never filled.
  static __device__ __forceinline__ int last_phase(int stage) {
    return (Config::depth_tiles - stage + stages - 1) / stages - 1;
  }
};

}  // namespace hydrac::cuda
