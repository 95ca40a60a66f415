// A matmul whose epilogue sees whole rows: a block has all columns of one tile of rows.
#pragma once
#include "cuda/matmul/mainloop.cuh"
#include "cuda/matmul/operands.cuh"
#include "cuda/matmul/row_epilogue.cuh"

namespace hydrac::cuda {

template <class Config, class Epilogue>
__device__ __forceinline__ void whole_rows_matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                                  Epilogue& epilogue, unsigned char* memory) {
  constexpr int consumers = Config::tile.consumers();
  const MatmulShared<Config> shared{ptx::shared_address(memory)};
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  const MatmulPlace place{static_cast<int>(blockIdx.x) * Config::tile.rows, 0};
  if (threadIdx.x == consumers * 128) {
    prefetch_map(b);
    prefetch_map(a);
    shared.create_barriers();
  }
  cluster_arrive();
  cluster_wait();
  if (warpgroup < consumers) {
    ptx::grow_registers<consumer_registers(consumers)>();
    wait_for_previous_kernel();
    launch_next_kernel();
    {
      MatmulSums<Config> sums;
      sums.compute(MatmulOperands<Config>{shared, warpgroup * Config::tile.consumer_panels()},
                   Config::depth_tiles);
      cluster_arrive();  // all copies and arrivals are here
      // All matmuls have read the stages, where results go.
      barrier::block_sync<consumers * 128>(kConsumersBarrier);
      sums.store_transposed(shared.results(warpgroup), 0, 1);
    }
    WholeRows<Config, Epilogue> whole_rows(epilogue, shared, memory, place.row, rows);
    barrier::block_sync<consumers * 128>(kConsumersBarrier);  // other threads' results are there
    whole_rows.run();
    if constexpr (Epilogue::sums > 0) whole_rows.store_sums();
  } else {
    ptx::shrink_registers<kProducerRegisters>();
    if (threadIdx.x == consumers * 128) copy_tile(shared, a, b, place, static_cast<int>(cluster_rank()));
    __syncwarp();  // the warp has converged before it arrives
    cluster_arrive();
  }
  // A block must stay until its copies have reached the others.
  cluster_wait();
}

}  // namespace hydrac::cuda
