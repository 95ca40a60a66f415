// c [m,n] = a [m,k] . b on Hopper's tensor cores (sm_90a), for 16-bit storage and matmuls so small that the
// time to the first result counts more than the rate. An epilogue is what cuda/matmul/matmul.cuh says,
// never paired: it is called once for every eight consecutive columns of every row. Column sums are
// partials[sums] [small_matmul_sums_rows, n].
//
// No kernel that this one may overlap writes b: it is loaded while the kernel before still runs.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/small_matmul/epilogue.cuh"
#include "cuda/small_matmul/multiply.cuh"
#include "cuda/small_matmul/operands.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// Launch: small_matmul_launch(problem, tile). a and b are kernel parameters, `const __grid_constant__`,
// encoded as small_matmul_map_a and _b say. It waits for the previous kernel itself. Every run gives the
// same bits.
template <class Config, class Epilogue>
__device__ __forceinline__ void small_matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                             Epilogue& epilogue) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const SmallMatmulShared<Config> shared{ptx::shared_address(shared_memory)};
  const int panel = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  const int tile_row = static_cast<int>(blockIdx.x) / Config::column_tiles;
  const SmallMatmulPlace place{tile_row * SmallMatmulTile::rows,
                               static_cast<int>(blockIdx.x) % Config::column_tiles * Config::tile.columns()};
  if (threadIdx.x == Config::tile.panels * 128) {
    prefetch_map(b);
    prefetch_map(a);
    shared.create_barriers();
  }
  __syncthreads();
  if (panel == Config::tile.panels) {
    if (threadIdx.x % 32 == 0) copy_small_operands(shared, a, b, place, 0);
    return;
  }
  wait_for_previous_kernel();
  launch_next_kernel();
  SmallMatmulRows<Config, Epilogue> epilogue_rows(
      rows, place.row, place.column + panel * SmallMatmulTile::panel_columns, epilogue);
  SmallMatmulSums<Config> sums;
  sums.compute(shared, panel);
  sums.store(shared, panel);
  const std::uint32_t results = shared.results(panel);
  sync_panel(panel);
  epilogue_rows.run(results);
  if constexpr (Epilogue::sums > 0) {
    epilogue_rows.store_sums(reinterpret_cast<float*>(shared_memory + (results - shared.base)), panel,
                             tile_row);
  }
}

}  // namespace hydrac::cuda
