// The compile-time description of a kernel for a small matmul, and the shared memory of its block, which is
// also that of a row matmul whose blocks exchange rows (cuda/row_matmul/config.cuh).
#pragma once
#include "cuda/barrier.cuh"
#include "cuda/small_matmul/geometry.h"

namespace hydrac::cuda {

// Storage is bf16 or f16; the rest as in MatmulProblem. The rows of a are no part of it: they may be known
// at run time.
template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, SmallMatmulTile tile_>
struct SmallMatmulConfig {
  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_);
  static constexpr int k = static_cast<int>(k_);
  static constexpr bool b_transposed = b_transposed_;
  static constexpr SmallMatmulTile tile = tile_;

  static constexpr int column_tiles = (n + tile.columns() - 1) / tile.columns();
  static constexpr int depth_tiles = (k + SmallMatmulTile::depth - 1) / SmallMatmulTile::depth;
  static constexpr bool is_ring = depth_tiles > tile.stages;  // stages are filled more than once
  static constexpr bool reads_rows_once = false;              // of a: several blocks read them
};

// Stages of a; then, for each panel, stages of its columns of b, over which its warpgroup writes its results
// when its matmuls are done; barriers. Operands are rows of 128 bytes, swizzled. Results are rows of the
// tile, whose 16-byte chunks are permuted by the row so that both sides touch all banks once.
template <class Config_>
struct SmallMatmulShared {
  using Config = Config_;
  static constexpr int stages = Config::tile.stages;
  static constexpr int a_bytes = Config::tile.rows * Config::tile.depth * 2;               // of a stage
  static constexpr int panel_bytes = Config::tile.panel_columns * Config::tile.depth * 2;  // of a stage
  static constexpr int result_row_bytes = Config::tile.panel_columns * 2;
  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t a(int stage) const { return base + stage * a_bytes; }
  __device__ __forceinline__ std::uint32_t b(int panel, int stage) const {
    return a(stages) + (panel * stages + stage) * panel_bytes;
  }
  __device__ __forceinline__ std::uint32_t results(int panel) const { return b(panel, 0); }
  // Eight columns of the tile.
  __device__ __forceinline__ std::uint32_t result(int row, int column) const {
    constexpr int columns = Config::tile.panel_columns;
    return results(column / columns) + row * result_row_bytes + (column % columns / 8 ^ row % 8) * 16;
  }

  // Of a stage: its copies have arrived; the warpgroups that read it, in all blocks that the copies go to,
  // are done.
  __device__ __forceinline__ std::uint32_t full(int stage) const {
    return b(Config::tile.panels, 0) + stage * 8;
  }
  __device__ __forceinline__ std::uint32_t empty(int stage) const { return full(stages + stage); }

  // By one thread.
  __device__ __forceinline__ void create_barriers() const {
    for (int stage = 0; stage < stages; ++stage) {
      barrier::init(full(stage), 1);
      if constexpr (Config::is_ring) barrier::init(empty(stage), Config::tile.warpgroups());
    }
    barrier::publish();
  }

 private:
  static_assert((2 * stages + 1) * 8 <= Config::tile.barrier_bytes);
  static_assert(Config::tile.rows * result_row_bytes <= stages * panel_bytes);
};

}  // namespace hydrac::cuda
