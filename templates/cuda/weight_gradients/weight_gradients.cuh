// Weight gradients on Hopper's tensor cores (sm_90a): d_w [m,n] f32 = d_y^T . x for several pairs of d_y
// [rows,m] and x [rows,n] of 16-bit storage, in one kernel. The blocks of a cluster share a tile: each adds
// up some of the rows, then they exchange their sums through shared memory, and each writes a share of the
// columns. Every run gives the same bits. The gradients' norm needs not read them again: each warpgroup
// leaves the sum of squares of its piece (weight_gradient_pieces).
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/weight_gradients/operands.cuh"
#include "cuda/weight_gradients/sums.cuh"

namespace hydrac::cuda {

// Launch: weight_gradients_launch(problem, tile), with __cluster_dims__(parts, 1, 1) where that is not 1. The
// maps are encoded as weight_gradients_map() says. `squares`, if Config asks for them: f32
// [weight_gradient_pieces(problem, tile)], the pieces of one gradient after the other. Waits for the previous
// kernel itself.
template <class Config, int count>
__device__ __forceinline__ void weight_gradients(const WeightGradient (&gradients)[count],
                                                 [[maybe_unused]] float* squares = nullptr) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  constexpr WeightGradientTile tile = Config::tile;
  const WeightGradientShared<Config> shared{ptx::shared_address(shared_memory)};
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  const auto place = WeightGradientPlace<Config>::of_block();
  const WeightGradientWork work = weight_gradient_work(gradients, place);
  const WeightGradient& gradient = gradients[work.gradient];
  if (threadIdx.x == 0) {
    prefetch_map(*gradient.d_y);
    prefetch_map(*gradient.x);
    shared.create_barriers();
  }
  if constexpr (tile.shared > 1) {
    cluster_sync();  // others arrive at these barriers
  } else {
    __syncthreads();
  }
  wait_for_previous_kernel();
  launch_next_kernel();
  if (warpgroup < tile.warpgroups) {
    if constexpr (tile.moves_registers()) ptx::grow_registers<tile.registers()>();
    WeightGradientSums<Config> sums;
    sums.compute(shared, warpgroup, work.last - work.first, place);
    // Behind this no block reads what others copy, or arrives at their barriers.
    if constexpr (tile.cluster() > 1) cluster_sync();
    if constexpr (tile.parts > 1) {
      sums.send(shared, warpgroup, place);
      cluster_sync();
    }
    const int row = work.row + warpgroup * 64;
    [[maybe_unused]] const float square =
        sums.finish(shared, warpgroup, place.part, gradient, row, work.column);
    if constexpr (Config::squares) {
      const float total = sums.total(shared, warpgroup, square);
      const int piece = weight_gradient_piece<Config>(gradient, work, row, place.part);
      if (threadIdx.x % 128 == 0 && piece >= 0) squares[piece] = total;
    }
  } else {
    if constexpr (tile.moves_registers()) ptx::shrink_registers<tile.other_registers>();
    if (threadIdx.x == tile.warpgroups * 128) copy_steps(shared, gradient, work, place);
    __syncwarp();
    if constexpr (tile.cluster() > 1) cluster_sync();
    if constexpr (tile.parts > 1) cluster_sync();
  }
}

}  // namespace hydrac::cuda
