// The block of query rows that a thread block owns.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/attention/stream.cuh"

namespace hydrac::cuda {

// Blocks of one head are neighbours, so that they find its keys in the L2 cache, and under the causal mask
// the longest come first.
template <class Mask, int rows, int columns>
struct QueryBlock {
  int row;  // batch * heads + head
  int batch, head, kv_head;
  int first;       // query
  int count;       // queries that exist, at least 1
  int first_tile;  // of keys that any of them sees
  int tiles;
  TokenRange unmasked;  // tiles of keys that all of them see: they need no mask

  template <class Shape>
  __device__ __forceinline__ explicit QueryBlock(const Shape& shape) {
    const int blocks = (shape.tokens + rows - 1) / rows;
    const int index = static_cast<int>(blockIdx.x);
    const int block = index % blocks;
    row = index / blocks;
    batch = row / shape.heads;
    head = row % shape.heads;
    kv_head = head / (shape.heads / shape.kv_heads);
    first = (Mask::hides_later ? blocks - 1 - block : block) * rows;
    count = valid_rows<rows>(shape.tokens, first);
    const int last = first + count - 1;
    const TokenRange seen = keys_of_any<Mask>(shape, first, last);
    const TokenRange seen_by_all = keys_of_all<Mask>(shape, first, last);
    first_tile = seen.first / columns;
    tiles = (seen.end + columns - 1) / columns - first_tile;
    unmasked = {(seen_by_all.first + columns - 1) / columns, seen_by_all.end / columns};
  }

  __device__ __forceinline__ bool needs_mask(int tile) const {
    return tile >= unmasked.end || (Mask::hides_earlier && tile < unmasked.first);
  }
};

// The sequence of the block's queries: the one whose documents a kernel has to be given.
template <class Config>
__device__ __forceinline__ int sequence_of_queries(const SequenceShape& shape) {
  const int blocks = (shape.tokens + Config::rows - 1) / Config::rows;
  return static_cast<int>(blockIdx.x) / blocks / shape.heads;
}

}  // namespace hydrac::cuda
