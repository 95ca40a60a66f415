// The thread that starts the copies of a small matmul's, or a row matmul's, operands to shared memory.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/small_matmul/shared.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// A tile's first row and column.
struct SmallMatmulPlace {
  int row, column;
};

// `depth` of k and further. Of the columns of b that the blocks of a cluster have in common, block `rank`
// copies its share, to all of them.
template <class Shared>
__device__ __forceinline__ void copy_panels(const Shared& shared, const TensorMap& b,
                                            const SmallMatmulPlace& place, int rank, int stage, int depth) {
  using Config = typename Shared::Config;
  constexpr int down = Config::tile.down, share = Config::tile.panels / down;
#pragma unroll
  for (int i = 0; i < share; ++i) {
    const int panel = down > 1 ? rank * share + i : i;
    const int column = place.column + panel * Config::tile.panel_columns;
    const int x = Config::b_transposed ? depth : column, y = Config::b_transposed ? column : depth;
    if constexpr (down > 1) {
      copy_box_to((1 << down) - 1, shared.b(panel, stage), b, x, y, shared.full(stage));
    } else {
      copy_box(shared.b(panel, stage), b, x, y, shared.full(stage));
    }
  }
}

// The block's rows of a, `depth` of k and further.
template <class Shared>
__device__ __forceinline__ void copy_rows(const Shared& shared, const TensorMap& a,
                                          const SmallMatmulPlace& place, int stage, int depth) {
  if constexpr (Shared::Config::reads_rows_once) {
    copy_box_once(shared.a(stage), a, depth, place.row, shared.full(stage));
  } else {
    copy_box(shared.a(stage), a, depth, place.row, shared.full(stage));
  }
}

// By one thread. No kernel before this one writes b, so that as many stages of it as there are do not wait.
// `Shared`: where stages and barriers lie, as SmallMatmulShared.
template <class Shared>
__device__ __forceinline__ void copy_small_operands(const Shared& shared, const TensorMap& a,
                                                    const TensorMap& b, const SmallMatmulPlace& place,
                                                    int rank) {
  using Config = typename Shared::Config;
  constexpr int depth = Config::tile.depth, stages = Config::tile.stages;
  constexpr int first = Config::is_ring ? stages : Config::depth_tiles;
#pragma unroll 1
  for (int k = 0; k < first; ++k) {
    barrier::expect(shared.full(k), Config::tile.stage_bytes());
    copy_panels(shared, b, place, rank, k, k * depth);
  }
  wait_for_previous_kernel();
  launch_next_kernel();
#pragma unroll 1
  for (int k = 0; k < first; ++k) copy_rows(shared, a, place, k, k * depth);
  if constexpr (Config::is_ring) {
    int stage = 0;
    std::uint32_t parity = 0;
#pragma unroll 1
    for (int k = first; k < Config::depth_tiles; ++k) {
      barrier::wait_patiently(shared.empty(stage), parity);
      barrier::expect(shared.full(stage), Config::tile.stage_bytes());
      copy_rows(shared, a, place, stage, k * depth);
      copy_panels(shared, b, place, rank, stage, k * depth);
      if (++stage == stages) stage = 0, parity ^= 1;
    }
  }
}

}  // namespace hydrac::cuda
