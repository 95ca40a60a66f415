// c [m,n] = a [m,k] . b on Hopper's tensor cores (sm_90a), for 16-bit storage, with an epilogue of the
// caller's: c itself is written only if the epilogue writes it.
//
// An epilogue is called for every eight consecutive columns of every row, once, with the matmuls rounded to
// Storage. Its calls run beside the matmuls of the next tile. It is a struct with
//   static constexpr int sums;   // column sums that it keeps, 0 to 2
//   struct Operands;             // what a call reads of its row in global memory; may be empty
//   void begin(int column);      // before a thread's rows of a tile: loads what depends on the column alone
//   Operands load(std::int64_t row, int column) const;  // some rows ahead of the call
//   void operator()(std::int64_t row, int column, const Vector<Storage, 8>& values, const Operands&);
// or, paired, with the values of columns `column` and `column + n / 2`, column < n / 2:
//   void operator()(std::int64_t row, int column, const Vector<Storage, 8>& first,
//                   const Vector<Storage, 8>& second, const Operands&);
// and, with sums,
//   float sum[sums][8];          // of the thread's columns, over the rows of a tile: the calls add to them
//   float* partials[sums];       // each [tiles of rows, columns]: a row is a tile's sums
// Of a tensor that the kernel writes, a call reads only the elements that it writes.
#pragma once
#include "cuda/matmul/epilogue.cuh"
#include "cuda/matmul/multiply.cuh"
#include "cuda/matmul/operands.cuh"
#include "cuda/previous_kernel.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// The two warpgroups of a block take turns to multiply, because a parity tells a stage's phase only from the
// one before: who waits for a stage must know that the other one has begun what lies before.
__device__ __forceinline__ void wait_turn(int warpgroup) {
  barrier::block_sync<256>(3 + warpgroup);
}
__device__ __forceinline__ void give_turn(int warpgroup) {
  barrier::block_arrive<256>(3 + warpgroup);
}

// By one warpgroup: every second tile of the block.
template <class Config, class Epilogue>
__device__ __forceinline__ void multiply_tiles(const MatmulShared<Config>& shared, unsigned char* memory,
                                               const MatmulTiles<Config>& tiles, int warpgroup,
                                               std::int64_t rows, Epilogue& epilogue) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const std::uint32_t results = shared.results(warpgroup);
  MatmulStage<Config> stage;
  if (warpgroup == 1) {
    stage.skip_tile();
    give_turn(0);
  }
#pragma unroll 1
  for (int tile = tiles.first() + warpgroup * tiles.step(); tile < tiles.count(); tile += 2 * tiles.step()) {
    // What the epilogue loads first is under way while the matmuls are computed.
    MatmulRows<Config, Epilogue> epilogue_rows(results, warpgroup, rows, tiles.place(tile), epilogue);
    MatmulSums<Config> sums;
    wait_turn(warpgroup);
    sums.start(shared, stage);
    stage.skip_tile();
    if (tile + tiles.step() < tiles.count()) give_turn(1 - warpgroup);
    sums.finish(shared);
    // One half of the rows after the other: shared memory has room for half of the results, and the epilogue
    // gets the registers of sums that are stored.
    sync_warpgroup(warpgroup);  // the results of the tile before have been read
    sums.template store<0>(results, warp, lane);
    sync_warpgroup(warpgroup);
    epilogue_rows.run(0);
    sync_warpgroup(warpgroup);
    sums.template store<1>(results, warp, lane);
    sync_warpgroup(warpgroup);
    epilogue_rows.run(1);
    if constexpr (Epilogue::sums > 0) {
      epilogue_rows.store_sums(reinterpret_cast<float*>(memory + (results - shared.base)));
    }
  }
}

// Launch: as matmul_launch() says, with __cluster_dims__(cluster, 1, 1) and __launch_bounds__(threads, 1). a
// and b are kernel parameters, `const __grid_constant__`, encoded as matmul_map_a() and matmul_map_b() say.
// It waits for the previous kernel itself. Every run gives the same bits.
template <class Config, class Epilogue>
__device__ __forceinline__ void matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                       Epilogue& epilogue) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const MatmulShared<Config> shared{ptx::shared_address(shared_memory)};
  const int rank = static_cast<int>(cluster_rank());
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  if (threadIdx.x == 0) {
    prefetch_map(a);
    prefetch_map(b);
    shared.create_barriers();
  }
  cluster_sync();
  wait_for_previous_kernel();
  launch_next_kernel();

  const MatmulTiles<Config> tiles(rows, rank);
  if (warp < MatmulTile::matmul_warps) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    multiply_tiles(shared, shared_memory, tiles, warp / 4, rows, epilogue);
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == MatmulTile::matmul_warps * 32) copy_operands(shared, tiles, a, b, rank);
    __syncwarp();
  }
  // A block must stay until its neighbour's copies and arrivals have reached it.
  cluster_sync();
}

}  // namespace hydrac::cuda
