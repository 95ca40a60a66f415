// c [m,n] = a [m,k] . b on Hopper's tensor cores (sm_90a), for 16-bit storage and a k so small that a block
// keeps its columns of b in shared memory while rows of a pass by: these are all that it loads.
//
// The epilogue is elementwise and only writes: elements of matrices of the matmul's shape and type, from
// that element of the matmul, rounded to Storage, and values of its column. Its calls run beside the
// matmuls of the next tiles. It is a struct with
//   static constexpr int outputs;        // matrices that it writes
//   struct Outputs;                      // a Vector<Storage, 8> for each of them
//   const TensorMap* matrices[outputs];  // kernel parameters, encoded as stationary_map_matrix() says
//   void begin(const ElementColumns&);   // first of all: loads what depends on the column alone
//   Outputs operator()(const Vector<Storage, 8>& values);  // once for every eight elements
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/stationary_matmul/epilogue.cuh"
#include "cuda/stationary_matmul/multiply.cuh"
#include "cuda/stationary_matmul/operands.cuh"
#include "cuda/tensor_copy.cuh"

namespace hydrac::cuda {

// The warpgroups of a block take turns to multiply, because a parity tells a stage's phase only from the one
// before: who waits for a stage must know that the others have begun what lies before.
__device__ __forceinline__ void await_turn(int warpgroup) {
  barrier::block_sync<256>(1 + StationaryTile::warpgroups + warpgroup);
}
__device__ __forceinline__ void pass_turn(int warpgroup) {
  barrier::block_arrive<256>(1 + StationaryTile::warpgroups + warpgroup);
}

// By one warpgroup: every third tile of the block.
template <class Config, class Epilogue>
__device__ __forceinline__ void multiply_tiles(const StationaryShared<Config>& shared,
                                               const StationaryTiles<Config>& tiles, int warpgroup,
                                               Epilogue& epilogue) {
  constexpr int warpgroups = StationaryTile::warpgroups;
  StationaryElements<Config, Epilogue> elements(shared, warpgroup, tiles.column(), epilogue);
  StationaryStage<Config> stage;
  stage.skip_tiles(warpgroup);
  if (warpgroup == warpgroups - 1) pass_turn(0);
  barrier::wait_patiently(shared.b_full(), 0);
#pragma unroll 1
  for (int tile = warpgroup; tile < tiles.count(); tile += warpgroups) {
    StationarySums<Config> sums;
    await_turn(warpgroup);
    sums.start(shared, stage);
    stage.skip_tiles(warpgroups);
    if (tile + 1 < tiles.count()) pass_turn((warpgroup + 1) % warpgroups);
    sums.finish(shared);
    elements.run(sums, tiles.row(tile));
  }
  elements.end();
}

// Launch: stationary_launch(problem), with __launch_bounds__(threads, 1). a and b are kernel parameters,
// `const __grid_constant__`, encoded as stationary_map_a() and _b() say. It waits for the previous kernel
// itself. Every run gives the same bits.
template <class Config, class Epilogue>
__device__ __forceinline__ void stationary_matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows,
                                                  Epilogue& epilogue) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const StationaryShared<Config> shared{ptx::shared_address(shared_memory)};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  if (threadIdx.x == 0) {
    prefetch_map(a);
    prefetch_map(b);
    shared.create_barriers();
  }
  __syncthreads();
  wait_for_previous_kernel();
  launch_next_kernel();

  const StationaryTiles<Config> tiles(rows);
  if (warp < StationaryTile::warpgroups * 4) {
    ptx::grow_registers<160>();
    multiply_tiles(shared, tiles, warp / 4, epilogue);
  } else {
    ptx::shrink_registers<24>();
    if (threadIdx.x == StationaryTile::warpgroups * 128) copy_stationary_operands(shared, tiles, a, b);
  }
}

}  // namespace hydrac::cuda
