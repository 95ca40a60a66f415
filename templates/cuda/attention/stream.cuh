// The loop that all attention kernels share: tiles of the side that a block does not own stream through
// shared memory.
#pragma once
#include "cuda/attention/matmul.cuh"

namespace hydrac {

// The caller has called start(0, 0), which begins the copies of tile 0. Calls start(index, stage) for the
// other tiles, counted from the first one that is visited, first(stage) when tile 0 is there and
// compute(index, stage) for each tile after it. With more than one stage the next tile's copies run while one
// computes. With three, matmuls may still read a tile while the next one computes.
template <class Matmul, int stages, class Start, class First, class Compute>
__device__ __forceinline__ void stream_tiles(int count, Start&& start, First&& first, Compute&& compute) {
  static_assert(!Matmul::is_async || stages == 3);
  const auto receive = [] {
    ptx::wait_copies();
    Matmul::publish_tiles();
    __syncthreads();  // others' copies have arrived too, and all have left the tile that comes next's place
  };
  receive();
  if (stages > 1 && count > 1) start(1, 1);
  first(0);
  int stage = 0;
#pragma unroll 1
  for (int index = 1; index < count; ++index) {
    if (stages == 1) {
      __syncthreads();  // all have read the only tile, which is overwritten
      start(index, 0);
    }
    stage = stage + 1 < stages ? stage + 1 : 0;
    receive();
    if (stages > 1 && index + 1 < count) start(index + 1, stage + 1 < stages ? stage + 1 : 0);
    compute(index, stage);
  }
}

// How many of the `rows` rows from `first` on exist. With a constant number of tokens that tiles divide, a
// constant.
template <int rows>
__device__ __forceinline__ int valid_rows(int tokens, int first) {
  return tokens % rows == 0 ? rows : min(tokens - first, rows);
}

}  // namespace hydrac
