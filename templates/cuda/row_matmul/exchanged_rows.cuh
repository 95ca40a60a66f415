// A row matmul whose blocks multiply columns of the same rows and send each other their results.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/row_matmul/epilogue.cuh"
#include "cuda/row_matmul/gather.cuh"
#include "cuda/row_matmul/operands.cuh"
#include "cuda/small_matmul/multiply.cuh"
#include "cuda/small_matmul/operands.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// The chunks of a thread's rows; `whole`: all rows of the block are there.
template <bool whole, class Config, class Epilogue>
__device__ __forceinline__ void run_gathered_chunks(std::uint32_t gathered, const RowThread<Config>& thread,
                                                    LoadedOperands<Config, Epilogue>& operands,
                                                    RowMatmulRows<Config, Epilogue>& rows) {
  using Rows = RowMatmulRows<Config, Epilogue>;
  using Chunks = RowChunks<Config, Epilogue>;
#pragma unroll 1
  for (int index = 0; index < Chunks::count; ++index) {
    typename Rows::Chunk chunk;
#pragma unroll
    for (int i = 0; i < Chunks::steps; ++i) {
      const int row = thread.row(index * Chunks::steps + i);
      chunk.values[i] = __builtin_bit_cast(
          typename Rows::Values, ptx::load_shared<4>(gathered + row * (Config::n * 2) + thread.column * 2));
    }
    operands.template take<whole>(index, chunk.operands);
    rows.template begin_passes<whole>(index, chunk);
    rows.template finish_passes<whole>(index, chunk);
  }
}

// `memory`: the start of shared memory.
template <class Config, class Epilogue>
__device__ __forceinline__ void exchange_rows(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                              Epilogue& epilogue, unsigned char* memory) {
  const SmallMatmulShared<Config> shared{ptx::shared_address(memory)};
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  const int side = static_cast<int>(cluster_rank());
  const SmallMatmulPlace place{static_cast<int>(blockIdx.x) / Config::tile.across * Config::tile.rows,
                               side * Config::tile.columns()};
  if (threadIdx.x == Config::matmul_threads) {
    prefetch_map(b);
    prefetch_map(a);
    shared.create_barriers();
    expect_rows<Config>(shared);
  }
  cluster_arrive();
  cluster_wait();
  if (warpgroup == Config::tile.warpgroups()) {
    if (threadIdx.x == Config::matmul_threads) copy_small_operands(shared, a, b, place, side);
    return;
  }
  wait_for_previous_kernel();
  launch_next_kernel();
  const RowThread<Config> thread;
  const std::int64_t first = place.row + side * Config::rows;
  RowMatmulRows<Config, Epilogue> epilogue_rows(epilogue, thread, reinterpret_cast<float*>(memory), first,
                                                rows);
  LoadedOperands<Config, Epilogue> operands(epilogue, thread, first, rows);
  epilogue_rows.begin();
  operands.template load<false>(0);
  {
    SmallMatmulSums<Config> sums;
    sums.compute(shared, warpgroup);
    sums.store(shared, warpgroup);
  }
  gather_rows(shared, side);
  if (first + Config::rows <= rows) {
    run_gathered_chunks<true>(gathered_rows(shared), thread, operands, epilogue_rows);
  } else {
    run_gathered_chunks<false>(gathered_rows(shared), thread, operands, epilogue_rows);
  }
  if constexpr (Epilogue::sums > 0) epilogue_rows.store_sums(reinterpret_cast<float*>(memory));
}

}  // namespace hydrac::cuda
