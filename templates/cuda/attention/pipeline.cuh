// The loop that all attention kernels share: tiles of the side that a block does not own stream through
// shared memory.
#pragma once
#include "cuda/attention/matmul.cuh"
#include "cuda/attention/rows.cuh"
#include "hydrac/random.h"

namespace hydrac::cuda {

// The caller has called start(0, 0), which begins the copies of tile 0. Calls start(index, stage) for the
// other tiles, counted from the first one that is visited, first(stage) when tile 0 is there and
// compute(index, stage) for each tile after it. With more than one stage the next tile's copies run while one
// computes. With three, matmuls may still read a tile while the next one computes.
template <class Config, class Matmul, class Start, class First, class Compute>
__device__ __forceinline__ void stream_tiles(int count, Start&& start, First&& first, Compute&& compute) {
  constexpr int stages = Config::tile.stages;
  static_assert(Config::family != AttentionFamily::hopper || stages == 3);
  const auto receive = [] {
    ptx::wait_copies();
    Matmul::publish_tiles();
    __syncthreads();
  };
  receive();
  if (stages > 1 && count > 1) start(1, 1);
  first(0);
  int stage = 0;
#pragma unroll 1
  for (int index = 1; index < count; ++index) {
    if (stages == 1) {
      __syncthreads();
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

// The block of query rows that a thread block owns. Blocks of one head are neighbours, so that they find its
// keys in the L2 cache, and under the causal mask the longest come first.
template <class Config>
struct QueryBlock {
  int batch, head, kv_head;
  int first;       // query
  int count;       // queries that exist, at least 1
  int first_tile;  // of keys that any of them sees
  int tiles;
  TokenRange unmasked;  // tiles of keys that all of them see: they need no mask

  __device__ __forceinline__ explicit QueryBlock(const typename Config::Sequence& shape) {
    const int blocks = (shape.tokens + Config::rows - 1) / Config::rows;
    const int index = static_cast<int>(blockIdx.x);
    const int block = index % blocks, row = index / blocks;
    batch = row / shape.heads;
    head = row % shape.heads;
    kv_head = head / (shape.heads / shape.kv_heads);
    first = (Config::causal ? blocks - 1 - block : block) * Config::rows;
    count = valid_rows<Config::rows>(shape.tokens, first);
    const int last = first + count - 1;
    const TokenRange seen = keys_of_any<typename Config::Mask>(shape, first, last);
    const TokenRange seen_by_all = keys_of_all<typename Config::Mask>(shape, first, last);
    first_tile = seen.first / Config::columns;
    tiles = (seen.end + Config::columns - 1) / Config::columns - first_tile;
    unmasked = {(seen_by_all.first + Config::columns - 1) / Config::columns,
                seen_by_all.end / Config::columns};
  }

  __device__ __forceinline__ bool needs_mask(int tile) const {
    return tile >= unmasked.end || (Config::Mask::hides_earlier && tile < unmasked.first);
  }
};

// The sequence of the block's queries: the one whose documents a kernel has to be given.
template <class Config>
__device__ __forceinline__ int sequence_of_queries(const SequenceShape& shape) {
  const int blocks = (shape.tokens + Config::rows - 1) / Config::rows;
  return static_cast<int>(blockIdx.x) / blocks / shape.heads;
}

// The index that dropout gives to query 0, key 0 of a head.
__device__ __forceinline__ std::uint64_t dropout_base(const SequenceShape& shape, int batch, int head) {
  return score_index(batch * shape.heads + head, shape.tokens, 0, 0);
}

}  // namespace hydrac::cuda
