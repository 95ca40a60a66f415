// The compile-time description of a matmul whose b stays in shared memory, what of it a block computes, and
// the block's shared memory.
#pragma once
#include "cuda/barrier.cuh"
#include "cuda/stationary_matmul/geometry.h"

namespace hydrac::cuda {

// Storage is bf16 or f16; the rest as in MatmulProblem. The rows of a are no part of it: they may be known
// at run time.
template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, StationaryTile tile_>
struct StationaryConfig {
  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_);
  static constexpr int k = static_cast<int>(k_);
  static constexpr bool b_transposed = b_transposed_;
  static constexpr StationaryTile tile = tile_;

  static constexpr int half_columns = StationaryTile::columns / 2;
  static constexpr int column_tiles = (n + StationaryTile::columns - 1) / StationaryTile::columns;
  static_assert((k + StationaryTile::depth - 1) / StationaryTile::depth == tile.depth_tiles);
};

// b, of each depth the two halves of the block's columns; stages of a; each warpgroup's slots for pieces of
// what the epilogue writes, of each the two halves of the columns; barriers. All are rows of 128 bytes,
// swizzled.
template <class Config>
struct StationaryShared {
  static constexpr int stages = Config::tile.stages;
  static constexpr int half_b_bytes = Config::half_columns * StationaryTile::depth * 2;
  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t b(int depth) const { return base + depth * 2 * half_b_bytes; }
  __device__ __forceinline__ std::uint32_t a(int stage) const {
    return b(Config::tile.depth_tiles) + stage * StationaryTile::stage_bytes;
  }
  __device__ __forceinline__ std::uint32_t piece(int warpgroup, int slot, int matrix) const {
    return a(stages) + warpgroup * Config::tile.slots_bytes() +
           (slot * Config::tile.matrices + matrix) * StationaryTile::piece_bytes;
  }

  // b has arrived.
  __device__ __forceinline__ std::uint32_t b_full() const { return piece(StationaryTile::warpgroups, 0, 0); }
  // Of a stage: its copy has arrived; the warpgroup that reads it is done.
  __device__ __forceinline__ std::uint32_t full(int stage) const { return b_full() + (1 + stage) * 8; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const { return full(stages + stage); }

  // By one thread.
  __device__ __forceinline__ void create_barriers() const {
    barrier::init(b_full(), 1);
    for (int stage = 0; stage < stages; ++stage) {
      barrier::init(full(stage), 1);
      barrier::init(empty(stage), 1);
    }
    barrier::publish();
  }

 private:
  static_assert((1 + 2 * stages) * 8 <= StationaryTile::barrier_bytes);
};

// The tiles of a block: 128 columns, of a range of the rows.
template <class Config>
class StationaryTiles {
 public:
  __device__ __forceinline__ explicit StationaryTiles(std::int64_t rows) {
    const auto down = static_cast<int>((rows + StationaryTile::rows - 1) / StationaryTile::rows);
    const int share = static_cast<int>(blockIdx.x) / Config::column_tiles,
              shares = static_cast<int>(gridDim.x) / Config::column_tiles;
    first_ = border(down, share, shares);
    count_ = border(down, share + 1, shares) - first_;
    column_ = static_cast<int>(blockIdx.x) % Config::column_tiles * StationaryTile::columns;
  }

  __device__ __forceinline__ int count() const { return count_; }
  __device__ __forceinline__ int row(int tile) const { return (first_ + tile) * StationaryTile::rows; }
  __device__ __forceinline__ int column() const { return column_; }

 private:
  static __device__ __forceinline__ int border(int down, int share, int shares) {
    return static_cast<int>(std::int64_t{down} * share / shares);
  }

  int first_, count_;  // of the tiles one below the other
  int column_;
};

// Which stage is next, and the parity of its current phase.
template <class Config>
struct StationaryStage {
  int index = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++index == Config::tile.stages) index = 0, parity ^= 1;
  }
  // Over the stages of `tiles` whole tiles.
  __device__ __forceinline__ void skip_tiles(int tiles) {
    index += tiles * Config::tile.depth_tiles;
    parity ^= index / Config::tile.stages % 2;
    index %= Config::tile.stages;
  }
};

}  // namespace hydrac::cuda
