// The thread that starts the copies of the operands of weight gradients to shared memory.
#pragma once
#include "cuda/tensor_copy.cuh"
#include "cuda/weight_gradients/shared.cuh"

namespace hydrac::cuda {

// By one thread: all steps of the block, as far ahead as there are stages.
template <class Config>
__device__ __forceinline__ void copy_steps(const WeightGradientShared<Config>& shared,
                                           const WeightGradient& gradient, const WeightGradientWork& work) {
  constexpr int panel_bytes = WeightGradientTile::panel_bytes;
  const TensorMap &d_y = *gradient.d_y, &x = *gradient.x;
  WeightGradientStage<Config> stage;
#pragma unroll 1
  for (int step = work.first; step < work.last; ++step, stage.advance()) {
    const int row = step * WeightGradientTile::depth;
    const std::uint32_t full = shared.full(stage.index);
    barrier::wait_patiently(shared.empty(stage.index), stage.parity ^ 1);
    barrier::expect(full, Config::tile.stage_bytes());
#pragma unroll
    for (int panel = 0; panel < Config::tile.warpgroups; ++panel)
      copy_box(shared.d_y(stage.index) + panel * panel_bytes, d_y, work.row + panel * 64, row, full);
#pragma unroll
    for (int panel = 0; panel < Config::tile.columns / 64; ++panel)
      copy_box(shared.x(stage.index) + panel * panel_bytes, x, work.column + panel * 64, row, full);
  }
}

}  // namespace hydrac::cuda
