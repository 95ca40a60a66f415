// A matmul so small that the time to the first result counts more than the rate: a block computes one tile,
// and loads b while the kernel before still runs.
#pragma once
#include "cuda/matmul/epilogue.cuh"
#include "cuda/matmul/mainloop.cuh"
#include "cuda/matmul/operands.cuh"

namespace hydrac::cuda {

template <class Config, class Epilogue>
__device__ __forceinline__ void one_tile_matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                                Epilogue& epilogue, unsigned char* memory) {
  const MatmulShared<Config> shared{ptx::shared_address(memory)};
  const int consumer = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  MatmulPlace place{static_cast<int>(blockIdx.x) / Config::column_tiles * Config::tile.rows,
                    static_cast<int>(blockIdx.x) % Config::column_tiles * Config::tile.columns()};
  if (threadIdx.x == Config::tile.consumers() * 128) {
    prefetch_map(b);
    prefetch_map(a);
    shared.create_barriers();
  }
  __syncthreads();  // barriers are initialized before anyone waits on them
  if (consumer == Config::tile.consumers()) {
    if (threadIdx.x % 32 == 0) copy_tile(shared, a, b, place, 0);
    return;
  }
  wait_for_previous_kernel();
  launch_next_kernel();
  const std::uint32_t results = shared.results(consumer);
  place.column += consumer * Config::consumer_columns;
  MatmulRows<Config, Epilogue> epilogue_rows(results, consumer, rows, place, epilogue);
  MatmulSums<Config> sums;
  sums.compute(MatmulOperands<Config>{shared, consumer}, Config::depth_tiles);
  sums.store_transposed(results, 0, 1);
  sync_consumer(consumer);
  epilogue_rows.run(0);
  if constexpr (Epilogue::sums > 0) {
    epilogue_rows.store_sums(reinterpret_cast<float*>(memory + (results - shared.base)));
  }
}

}  // namespace hydrac::cuda
