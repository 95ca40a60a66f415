// How a block of a row matmul comes to whole rows from the blocks of its cluster.
#pragma once
#include "cuda/ptx.cuh"
#include "cuda/row_matmul/config.cuh"
#include "cuda/small_matmul/shared.cuh"

namespace hydrac::cuda {

// Where other blocks send rows to, as a whole one behind the other; and the barrier that counts their bytes.
template <class Config>
__device__ __forceinline__ std::uint32_t gathered_rows(const SmallMatmulShared<Config>& shared) {
  return shared.full(0) + Config::tile.barrier_bytes;
}
template <class Config>
__device__ __forceinline__ std::uint32_t rows_arrived(const SmallMatmulShared<Config>& shared) {
  return gathered_rows(shared) - barrier::kBytes;
}

// By the thread that creates the barriers.
template <class Config>
__device__ __forceinline__ void expect_rows(const SmallMatmulShared<Config>& shared) {
  barrier::init(rows_arrived(shared), 1);
  barrier::publish();
  barrier::expect(rows_arrived(shared), Config::tile.row_bytes());
}

// By the warps that multiply, whose results are written, of the block on place `side` in its rows. Returns
// when the block's share of the rows is whole.
template <class Config>
__device__ __forceinline__ void gather_rows(const SmallMatmulShared<Config>& shared, int side) {
  barrier::block_sync<Config::matmul_threads>(1);
  constexpr int kLanes = Config::tile.columns() / 8;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < Config::tile.rows;
       row += Config::matmul_threads / kLanes) {
    const std::uint32_t to = gathered_rows(shared) + row % Config::rows * (Config::n * 2) +
                             (side * Config::tile.columns() + lane * 8) * 2;
    ptx::store_shared_of(row / Config::rows, to, ptx::load_shared<4>(shared.result(row, lane * 8)),
                         rows_arrived(shared));
  }
  barrier::wait_for_cluster(rows_arrived(shared), 0);
}

}  // namespace hydrac::cuda
