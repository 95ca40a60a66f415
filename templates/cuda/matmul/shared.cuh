// Shared memory of a matmul's block.
#pragma once
#include "cuda/matmul/config.cuh"
#include "cuda/matmul/pipeline.cuh"

namespace hydrac::cuda {

// Stages of operands, rows of a before panels of b; results on their way to the epilogue; barriers. Operands
// are rows of 128 bytes, swizzled. A consumer's results are rows of its panels, whose 16-byte chunks are
// permuted by the row so that both sides touch all banks once.
template <class Config_>
struct MatmulShared {
  using Config = Config_;
  static constexpr int stages = Config::tile.stages;
  static constexpr int result_row_bytes = Config::tile.consumer_panels() * 128;
  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t a(int stage) const {
    return base + stage * Config::tile.stage_bytes();
  }
  __device__ __forceinline__ std::uint32_t b(int stage, int panel) const {
    return a(stage) + Config::tile.a_bytes() + panel * MatmulTile::panel_bytes;
  }
  // A consumer that has one panel leaves its results in that of the first stage, when it is done with all
  // stages; where rows are whole, all consumers must be.
  __device__ __forceinline__ std::uint32_t results(int consumer) const {
    if constexpr (Config::tile.is_persistent()) {
      return a(stages) + consumer * Config::tile.result_bytes();
    } else if constexpr (Config::tile.schedule == MatmulSchedule::one_tile) {
      return b(0, consumer);
    } else if constexpr (Config::tile.has_few_rows()) {
      return base + Config::tile.exchange_bytes();
    } else {
      return base + consumer * (Config::tile.rows * result_row_bytes);
    }
  }
  // Eight columns of one of the block's whole rows.
  __device__ __forceinline__ std::uint32_t whole_row(int row, int column) const {
    constexpr int columns = Config::consumer_columns;
    return results(column / columns) + row * result_row_bytes + column % columns / 64 * 128 +
           (column % 64 / 8 ^ row % 8) * 16;
  }
  static constexpr int whole_row_bytes = Config::tile.rows * Config::n * 2;  // of all

  __device__ __forceinline__ Pipeline<stages> pipeline() const {
    return {a(stages) + (Config::tile.is_persistent() ? 2 * Config::tile.result_bytes() : 0)};
  }

  // By one thread. One consumer of a persistent block reads a stage, all consumers of other blocks do; and
  // those of the blocks that share operands.
  __device__ __forceinline__ void create_barriers() const {
    constexpr int readers = Config::tile.is_persistent() ? 1 : Config::tile.consumers();
    pipeline().create_barriers(readers * Config::tile.cluster);
    barrier::publish();
  }

 private:
  static_assert(Pipeline<stages>::bytes <= MatmulTile::barrier_bytes);
  static_assert(Config::tile.schedule != MatmulSchedule::one_tile ||
                Config::tile.rows * result_row_bytes <= MatmulTile::panel_bytes);
  static_assert(!Config::tile.has_few_rows() ||
                Config::tile.exchange_bytes() + Config::epilogue_rows * result_row_bytes <=
                    stages * Config::tile.stage_bytes());
  static_assert(Config::tile.schedule != MatmulSchedule::whole_rows ||
                whole_row_bytes < stages * Config::tile.stage_bytes());
};

}  // namespace hydrac::cuda
