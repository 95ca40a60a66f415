// The thread that starts the copies of the operands of weight gradients to shared memory.
#pragma once
#include "cuda/tensor_copy.cuh"
#include "cuda/weight_gradients/shared.cuh"

namespace hydrac::cuda {

// A panel's rows that this block copies, for itself and the blocks of the cluster that share them.
template <class Config>
__device__ __forceinline__ void copy_share(std::uint32_t panel, const TensorMap& map, int column, int row,
                                           std::uint32_t full, int share, std::uint16_t blocks) {
  if constexpr (Config::tile.shared == 1) {
    copy_box(panel, map, column, row, full);
  } else {
    constexpr int rows = Config::tile.copied_rows();
    copy_box_to(blocks, panel + share * rows * 128, map, column, row + share * rows, full);
  }
}

// By one thread: all steps of the block, as far ahead as there are stages.
template <class Config>
__device__ __forceinline__ void copy_steps(const WeightGradientShared<Config>& shared,
                                           const WeightGradient& gradient, const WeightGradientWork& work,
                                           const WeightGradientPlace<Config>& place) {
  constexpr int panel_bytes = WeightGradientTile::panel_bytes;
  const TensorMap &d_y = *gradient.d_y, &x = *gradient.x;
  std::uint16_t beside = 0, above = 0;  // the blocks that share d_y, and x
  for (int i = 0; i < Config::tile.shared; ++i)
    beside |= 1 << place.rank_across(i), above |= 1 << place.rank_down(i);
  WeightGradientStage<Config> stage;
#pragma unroll 1
  for (int step = work.first; step < work.last; ++step, stage.advance()) {
    const int row = step * WeightGradientTile::depth;
    const std::uint32_t full = shared.full(stage.index);
    barrier::wait_patiently(shared.empty(stage.index), stage.parity ^ 1);
    barrier::expect(full, Config::tile.stage_bytes());
#pragma unroll
    for (int panel = 0; panel < Config::tile.warpgroups; ++panel)
      copy_share<Config>(shared.d_y(stage.index) + panel * panel_bytes, d_y, work.row + panel * 64, row, full,
                         place.across, beside);
#pragma unroll
    for (int panel = 0; panel < Config::tile.columns / 64; ++panel)
      copy_share<Config>(shared.x(stage.index) + panel * panel_bytes, x, work.column + panel * 64, row, full,
                         place.down, above);
  }
}

}  // namespace hydrac::cuda
