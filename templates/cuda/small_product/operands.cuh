// The thread that starts the copies of a small product's operands to shared memory.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/small_product/shared.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// A tile's first row and column.
struct SmallProductPlace {
  int row, column;
};

// `depth` of k and further.
template <class Config>
__device__ __forceinline__ void copy_panels(const SmallProductShared<Config>& shared, const TensorMap& b,
                                            const SmallProductPlace& place, int stage, int depth) {
#pragma unroll
  for (int panel = 0; panel < Config::tile.panels; ++panel) {
    const int column = place.column + panel * SmallProductTile::panel_columns;
    copy_box(shared.b(panel, stage), b, Config::b_transposed ? depth : column,
             Config::b_transposed ? column : depth, shared.full(stage));
  }
}

// By one thread. No kernel before this one writes b, so that as many stages of it as there are do not wait.
template <class Config>
__device__ __forceinline__ void copy_small_operands(const SmallProductShared<Config>& shared,
                                                    const TensorMap& a, const TensorMap& b,
                                                    const SmallProductPlace& place) {
  constexpr int depth = SmallProductTile::depth, stages = Config::tile.stages;
  constexpr int first = Config::is_ring ? stages : Config::depth_tiles;
#pragma unroll 1
  for (int k = 0; k < first; ++k) {
    barrier::expect(shared.full(k), Config::tile.stage_bytes());
    copy_panels(shared, b, place, k, k * depth);
  }
  wait_for_previous_kernel();
  launch_next_kernel();
#pragma unroll 1
  for (int k = 0; k < first; ++k) copy_box(shared.a(k), a, k * depth, place.row, shared.full(k));
  if constexpr (Config::is_ring) {
    int stage = 0;
    std::uint32_t parity = 0;
#pragma unroll 1
    for (int k = first; k < Config::depth_tiles; ++k) {
      barrier::wait_patiently(shared.empty(stage), parity);
      barrier::expect(shared.full(stage), Config::tile.stage_bytes());
      copy_box(shared.a(stage), a, k * depth, place.row, shared.full(stage));
      copy_panels(shared, b, place, stage, k * depth);
      if (++stage == stages) stage = 0, parity ^= 1;
    }
  }
}

}  // namespace hydrac::cuda
