// c [m,n] = a [m,k] . b on Hopper's tensor cores (sm_90a), for 16-bit storage, with an epilogue of the
// caller's that may need sums over whole rows of c, such as a norm; c itself is written only if the epilogue
// writes it.
//
// An epilogue is called for every eight consecutive columns of every row, `passes` times, with the products
// rounded to Storage. Between two passes the threads of a row add up what each has found. It is a struct with
//   static constexpr int sums;        // column sums that it keeps, 0 to 3
//   static constexpr int passes;      // 1 or more
//   static constexpr int reductions;  // sums over the row that a pass asks for, at most; 1 or more
//   struct Operands;                  // what a row needs of global memory; may be empty
//   struct Kept;                      // what later passes need of the calls before; may be empty
//   void begin(int column);           // before the rows: loads what depends on the column alone
//   Operands load(std::int64_t row, int column) const;  // some time ahead of the calls
//   template <int pass>
//   void apply(std::int64_t row, int column, const Vector<Storage, 8>& values, const Operands&, Kept&,
//              const float (&totals)[reductions],  // over the row, of what the pass before found
//              float (&partial)[reductions]);      // zeros; what these columns add to this pass's
// and, with sums,
//   float sum[sums][8];               // of these columns, over the rows: the calls add to them
//   float* partials[sums];            // each [row_product_sums_rows, n]: columns of one matrix, side by side
// Of a tensor that the kernel writes, a call reads only the elements that it writes.
//
// No kernel that this one may overlap writes b: it is loaded while the kernel before still runs.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/row_product/config.cuh"
#include "cuda/row_product/epilogue.cuh"
#include "cuda/row_product/gather.cuh"
#include "cuda/small_product/multiply.cuh"
#include "cuda/small_product/operands.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// Of a thread that multiplies and of one that copies, where the one leaves them to the other.
constexpr int kRowProductRegisters = 160, kRowProductCopyRegisters = 32;

// By the warps that multiply, of the block on place `side` in its rows, whose whole ones begin at row
// `first`.
template <class Config, class Epilogue>
__device__ __forceinline__ void multiply_rows(const SmallProductShared<Config>& shared, unsigned char* memory,
                                              int warpgroup, int side, std::int64_t rows, int first,
                                              Epilogue& epilogue) {
  RowProductRows<Config, Epilogue> epilogue_rows(memory, rows, first, epilogue);
  if constexpr (!Config::tile.is_full()) epilogue_rows.begin();
  {
    SmallProductSums<Config> sums;
    const int panel = warpgroup * Config::tile.warpgroup_panels;
    sums.compute(shared, panel);
    if constexpr (Config::tile.down > 1) cluster_arrive();  // all copies and arrivals are here
    sums.store(shared, panel);
  }
  if constexpr (Config::tile.is_full()) {
    barrier::meet<128>(2 + warpgroup);  // loads from above would need the sums' registers
    epilogue_rows.begin();
  }
  gather_rows(shared, side);
  epilogue_rows.run(shared);
  if constexpr (Epilogue::sums > 0) epilogue_rows.store_sums();
}

// Launch: row_product_launch(problem, tile), with __cluster_dims__(cluster, 1, 1) and
// __launch_bounds__(threads, 1). a and b are kernel parameters, `const __grid_constant__`, encoded as
// row_product_map_a and _b say. It waits for the previous kernel itself. Every run gives the same bits.
template <class Config, class Epilogue>
__device__ __forceinline__ void row_product(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                            Epilogue& epilogue) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const SmallProductShared<Config> shared{ptx::shared_address(shared_memory)};
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  const int rank = Config::tile.cluster() > 1 ? static_cast<int>(cluster_rank()) : 0;
  const int side = Config::tile.across > 1 ? rank : 0;
  const SmallProductPlace place{static_cast<int>(blockIdx.x) / Config::tile.across * Config::tile.rows,
                                side * Config::tile.columns()};
  if (threadIdx.x == Config::product_threads) {
    prefetch_map(b);
    prefetch_map(a);
    shared.create_barriers();
    if constexpr (Config::tile.across > 1) expect_rows<Config>(shared);
  }
  if constexpr (Config::tile.cluster() > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  if (warpgroup < Config::tile.warpgroups()) {
    if constexpr (Config::tile.leaves_registers()) ptx::grow_registers<kRowProductRegisters>();
    wait_for_previous_kernel();
    launch_next_kernel();
    multiply_rows<Config>(shared, shared_memory, warpgroup, side, rows, place.row + side * Config::rows,
                          epilogue);
  } else {
    if constexpr (Config::tile.leaves_registers()) ptx::shrink_registers<kRowProductCopyRegisters>();
    if (threadIdx.x == Config::product_threads) copy_small_operands(shared, a, b, place, rank);
    __syncwarp();
    if constexpr (Config::tile.down > 1) cluster_arrive();
  }
  // A block must stay until its copies have reached the others. Who has whole rows knows that of all.
  if constexpr (Config::tile.down > 1) cluster_wait();
}

}  // namespace hydrac::cuda
