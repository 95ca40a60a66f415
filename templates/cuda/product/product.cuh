// c [m,n] = a [m,k] . b on Hopper's tensor cores (sm_90a), for 16-bit storage, with an epilogue of the
// caller's: c itself is written only if the epilogue writes it.
//
// An epilogue is called for every eight consecutive columns of every row, once, with the products rounded to
// Storage. Its calls run beside the products of the next tile. It is a struct with
//   static constexpr int sums;   // column sums that it keeps, 0 to 2
//   struct Operands;             // what a call reads of its row in global memory; may be empty
//   void begin(int column);      // before a thread's rows of a tile: loads what depends on the column alone
//   Operands load(std::int64_t row, int column) const;  // some rows ahead of the call, also before the
//   product void operator()(std::int64_t row, int column, const Vector<Storage, 8>& values, const Operands&);
// or, paired, with the values of columns `column` and `column + n / 2`, column < n / 2:
//   void operator()(std::int64_t row, int column, const Vector<Storage, 8>& first,
//                   const Vector<Storage, 8>& second, const Operands&);
// and, with sums,
//   float sum[sums][8];          // of the thread's columns, over the rows of a tile: the calls add to them
//   float* partials[sums];       // each [product_sums_rows, product_columns]: a row is a tile's sums
// Of a tensor that the kernel writes, a call reads only the elements that it writes.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/product/epilogue.cuh"
#include "cuda/product/multiply.cuh"
#include "cuda/product/operands.cuh"

namespace hydrac::cuda {

#ifdef PRODUCT_CLOCK
__device__ long long clocks;
#endif
// Launch: product_launch(problem), with __cluster_dims__(cluster, 1, 1) and __launch_bounds__(threads, 1). a
// and b are kernel parameters, `const __grid_constant__`, encoded as product_map_a and product_map_b say. It
// waits for the previous kernel itself. Every run gives the same bits.
template <class Config, class Epilogue>
__device__ __forceinline__ void product(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                        Epilogue& epilogue) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const ProductShared<Config> shared{ptx::shared_address(shared_memory)};
  constexpr bool clustered = Config::tile.cluster > 1;
  const int rank = clustered ? cluster_rank() : 0;
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  if (threadIdx.x == 0) {
    prefetch_map(a);
    prefetch_map(b);
    shared.create_barriers();
  }
  if constexpr (clustered) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  wait_for_previous_kernel();
  launch_next_kernel();
#ifdef PRODUCT_CLOCK
  const long long start = clock64();
#endif

  const ProductTiles<Config> tiles(rows, rank);
  constexpr int threads = Config::tile.threads();
  ProductCopies<Config> copies(shared, tiles, a, b, rank);
  if (warp < ProductTile::product_warps) {
    if constexpr (threads > 384) asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    if constexpr (threads == 384 && Config::tile.epilogue_warps == 4)
      asm volatile("setmaxnreg.dec.sync.aligned.u32 160;");
    multiply_tiles(shared, tiles);
  } else if (warp < ProductTile::product_warps + Config::tile.epilogue_warps) {
    if constexpr (threads == 640) asm volatile("setmaxnreg.dec.sync.aligned.u32 64;");
    if constexpr (threads == 384 && Config::tile.epilogue_warps == 4)
      asm volatile("setmaxnreg.inc.sync.aligned.u32 184;");
    if constexpr (threads == 512) asm volatile("setmaxnreg.dec.sync.aligned.u32 96;");
    const bool copier = !Config::tile.copy_warp && threadIdx.x == ProductTile::product_warps * 32;
    run_epilogue(shared, tiles, rows, reinterpret_cast<float*>(shared_memory + (shared.sums() - shared.base)),
                 epilogue, [&] {
                   if constexpr (!Config::tile.copy_warp) {
                     if (copier) copies.poll();
                     __syncwarp();
                   }
                 });
  } else {
    if constexpr (threads == 640) asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    if (threadIdx.x == (ProductTile::product_warps + Config::tile.epilogue_warps) * 32) {
      while (copies.left()) copies.start_next();
    }
    __syncwarp();
  }
#ifdef PRODUCT_CLOCK
  if (threadIdx.x == 0 && blockIdx.x == 0) clocks = clock64() - start;
#endif
  // A block must stay until its neighbour's copies and arrivals have reached it.
  if constexpr (clustered) cluster_sync();
}

}  // namespace hydrac::cuda
