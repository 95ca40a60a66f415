// The compile-time description of a kernel of weight gradients, and the stages of its pipeline.
#pragma once
#include "cuda/matmul/pipeline.cuh"
#include "cuda/matmul/weight_gradients.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// Storage is bf16 or f16; `accumulate`: the gradients are added to what is there.
template <class Storage_, std::int64_t rows_, bool accumulate_, WeightGradientTile tile_>
struct WeightGradientsConfig {
  using Storage = Storage_;
  static constexpr bool accumulate = accumulate_;
  static constexpr WeightGradientTile tile = tile_;
  static constexpr int steps = static_cast<int>(tiles_of(rows_, WeightGradientTile::depth));
  static_assert(steps >= tile.split);
};

// Stages of operands, panels of 64 columns of d_y before those of x: rows of 128 bytes, swizzled; barriers.
// As operands of the mainloop they are those of consumer `consumer`.
template <class Config>
struct WeightGradientOperands {
  using Stage = PipelineStage<Config::tile.stages>;
  static constexpr bool left_rows = true, right_rows = true;
  static constexpr int left_part_bytes = 0, right_panel_bytes = WeightGradientTile::panel_bytes;
  std::uint32_t base;
  int consumer;

  __device__ __forceinline__ std::uint32_t panel(int stage, int panel) const {
    return base + stage * Config::tile.stage_bytes() + panel * WeightGradientTile::panel_bytes;
  }
  __device__ __forceinline__ std::uint32_t left(int stage) const { return panel(stage, consumer); }
  __device__ __forceinline__ std::uint32_t right(int stage) const {
    return panel(stage, Config::tile.consumers);
  }
  __device__ __forceinline__ Pipeline<Config::tile.stages> pipeline() const {
    return {panel(Config::tile.stages, 0)};
  }
  __device__ __forceinline__ void release(int stage, int) const {
    if (threadIdx.x % 128 == 0) barrier::arrive(pipeline().empty(stage));
  }
};

}  // namespace hydrac::cuda
