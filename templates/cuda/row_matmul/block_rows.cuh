// A row matmul whose blocks have whole rows by themselves: two warpgroups multiply and one copies; all of
// them, or those two, are the epilogue's.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/row_matmul/epilogue.cuh"
#include "cuda/row_matmul/multiply.cuh"
#include "cuda/row_matmul/pool.cuh"
#include "cuda/small_matmul/operands.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// The chunks of a thread's rows; `whole`: all rows of the block are there.
template <bool whole, class Config, class Epilogue>
__device__ __forceinline__ void run_chunks(const RowMatmulShared<Config>& shared,
                                           const RowThread<Config>& thread,
                                           PooledOperands<Config, Epilogue>& operands,
                                           RowMatmulRows<Config, Epilogue>& rows) {
  using Rows = RowMatmulRows<Config, Epilogue>;
  using Chunks = RowChunks<Config, Epilogue>;
#pragma unroll 1
  for (int index = 0; index < Chunks::count; ++index) {
    typename Rows::Chunk chunk;
#pragma unroll
    for (int i = 0; i < Chunks::steps; ++i) {
      chunk.values[i] = __builtin_bit_cast(typename Rows::Values,
                                           shared.get(thread.row(index * Chunks::steps + i), thread.column));
    }
    operands.template take<whole>(index, chunk.operands);
    rows.template begin_passes<whole>(index, chunk);
    operands.release(index);
    rows.template finish_passes<whole>(index, chunk);
  }
}

// By the threads of the epilogue. `multiplied`: by those that have written results, and then have to meet the
// others, who know that results are written.
template <class Config, class Epilogue>
__device__ __forceinline__ void pass_whole_rows(const RowPool<Config, Epilogue>& pool, unsigned char* memory,
                                                bool multiplied) {
  const RowThread<Config> thread;
  float* const exchange = reinterpret_cast<float*>(memory + RowMatmulShared<Config>::exchange_offset);
  RowMatmulRows<Config, Epilogue> rows(pool.epilogue, thread, exchange, pool.first, pool.end);
  rows.begin();
  if (multiplied) barrier::block_sync<Config::tile.threads()>(kRowThreadsBarrier);
  PooledOperands<Config, Epilogue> operands(pool, memory, thread);
  if (pool.first + Config::rows <= pool.end) {
    run_chunks<true>(pool.shared, thread, operands, rows);
  } else {
    run_chunks<false>(pool.shared, thread, operands, rows);
  }
  if constexpr (Epilogue::sums > 0) rows.store_sums(reinterpret_cast<float*>(memory));
}

constexpr int kRowMatmulBarrier = 2;  // of those that multiply

// Of a thread that multiplies, of one that copies meanwhile, and of any in the epilogue.
constexpr int kRowMatmulRegisters = 240;
constexpr int kRowCopyRegisters = 24;
constexpr int kRowEpilogueRegisters = 168;

// `memory`: the start of shared memory.
template <class Config, class Epilogue>
__device__ __forceinline__ void multiply_whole_rows(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                                    Epilogue& epilogue, unsigned char* memory) {
  using Shared = RowMatmulShared<Config>;
  const Shared shared{ptx::shared_address(memory)};
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  const int rank = Config::tile.down > 1 ? static_cast<int>(cluster_rank()) : 0;
  const SmallMatmulPlace place{static_cast<int>(blockIdx.x) * Config::tile.rows, 0};
  const RowPool<Config, Epilogue> pool{shared, epilogue, place.row, rows};
  if (threadIdx.x == Config::matmul_threads) {
    prefetch_map(b);
    prefetch_map(a);
    shared.create_barriers();
    pool.create_barriers();
    barrier::publish();
  }
  if constexpr (Config::tile.down > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  if (warpgroup < Config::tile.warpgroups()) {
    ptx::grow_registers<kRowMatmulRegisters>();
    wait_for_previous_kernel();
    launch_next_kernel();
    RowMatmulSums<Config> sums;
    sums.compute(shared, warpgroup, RowPool<Config, Epilogue>::stages);
    if constexpr (Config::tile.down > 1) cluster_arrive();  // all copies and arrivals are here
    barrier::block_sync<Config::matmul_threads>(kRowMatmulBarrier);
    sums.store(shared, warpgroup);
    ptx::shrink_registers<kRowEpilogueRegisters>();
  } else {
    ptx::shrink_registers<kRowCopyRegisters>();
    if (threadIdx.x == Config::matmul_threads) {
      copy_small_operands(shared, a, b, place, rank);
      pool.fill();
    }
    __syncwarp();
    if constexpr (Config::tile.down > 1) cluster_arrive();
    wait_for_previous_kernel();
    // Registers that those who multiply have not even taken must not be taken back.
    barrier::block_sync<Config::tile.threads()>(kRowThreadsBarrier);
    ptx::grow_registers<kRowEpilogueRegisters>();
  }
  if (threadIdx.x < Config::epilogue_threads)
    pass_whole_rows(pool, memory, warpgroup < Config::tile.warpgroups());
  // A block must stay until its copies have reached the others.
  if constexpr (Config::tile.down > 1) cluster_wait();
}

}  // namespace hydrac::cuda
