// The compile-time description of a kernel of experts' weight gradients, and the stages of its pipeline.
#pragma once
#include "cuda/matmul/expert_gradients.h"
#include "cuda/matmul/pipeline.cuh"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// Storage is bf16 or f16, Gradient float or Storage. `accumulate`, of floats: the gradients are added to what
// is there, and an expert without rows adds nothing.
template <class Storage_, class Gradient_, int experts_, std::int64_t m_, std::int64_t n_, bool accumulate_,
          ExpertGradientTile tile_>
struct ExpertGradientsConfig {
  static_assert(m_ % 8 == 0 && n_ % 8 == 0, "16 bytes of each row that is accessed");
  static_assert(tile_.shared_bytes() <= 227 << 10, "what a block of Hopper may have");
  static_assert(!accumulate_ || sizeof(Gradient_) == sizeof(float));
  static_assert(kExpertRows % ExpertGradientTile::depth == 0);

  using Storage = Storage_;
  using Gradient = Gradient_;
  static constexpr int experts = experts_;
  static constexpr int m = static_cast<int>(m_), n = static_cast<int>(n_);
  static constexpr bool accumulate = accumulate_;
  static constexpr ExpertGradientTile tile = tile_;
  static constexpr int across = static_cast<int>(tiles_of(n_, tile.columns));
  static constexpr int expert_tiles = expert_gradient_tiles(m_, n_, tile);
};

// Stages of operands, two panels of 64 columns of d_y before those of x: rows of 128 bytes, swizzled;
// barriers.
template <class Config>
struct ExpertGradientOperands {
  using Stage = PipelineStage<Config::tile.stages>;
  static constexpr int left_panels = ExpertGradientTile::rows / 64, right_panels = Config::tile.columns / 64;
  static constexpr bool left_rows = true, right_rows = true;
  static constexpr int left_part_bytes = ExpertGradientTile::panel_bytes;
  static constexpr int right_panel_bytes = ExpertGradientTile::panel_bytes;
  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t left(int stage) const {
    return base + stage * Config::tile.stage_bytes();
  }
  __device__ __forceinline__ std::uint32_t right(int stage) const {
    return left(stage) + left_panels * ExpertGradientTile::panel_bytes;
  }
  __device__ __forceinline__ Pipeline<Config::tile.stages> pipeline() const {
    return {left(Config::tile.stages)};
  }
  // Tells the producers of all blocks that copy to the stage.
  __device__ __forceinline__ void release(int stage, int) const {
    const int thread = threadIdx.x % 128;
    if (thread < Config::tile.cluster) barrier::arrive_at(pipeline().empty(stage), thread);
  }
};

}  // namespace hydrac::cuda
