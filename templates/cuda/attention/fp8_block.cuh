// The queries that a block of the forward pass of 8 bits has, and the keys that they see.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/attention/fp8_tiles.h"

namespace hydrac::cuda {

template <class Config>
struct Fp8Block {
  int row;  // batch * heads + head
  int batch, head, kv_head;
  int first;  // query

  __device__ __forceinline__ explicit Fp8Block(const SequenceShape& shape) {
    constexpr Fp8Tiles tiles{Config::head_dim};
    const int blocks = (shape.tokens + Config::rows - 1) / Config::rows, group = shape.heads / shape.kv_heads;
    const Fp8Turn turn = fp8_turn(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x) / blocks, blocks,
                                  group, tiles.keys((shape.tokens + kFp8Columns - 1) / kFp8Columns));
    row = turn.row;
    batch = row / shape.heads;
    head = row % shape.heads;
    kv_head = head / group;
    first = (Config::causal ? blocks - 1 - turn.block : turn.block) * Config::rows;
  }
};

// The sequence of the block's queries: the one whose documents a kernel has to be given.
template <class Config>
__device__ __forceinline__ int sequence_of_fp8_queries(const SequenceShape& shape) {
  return Fp8Block<Config>(shape).batch;
}

// The tiles of keys that some rows of queries see. Without rows (past the sequence) there are none.
template <class Config>
struct Fp8Rows {
  int first;  // query
  int count;  // queries that exist, none where it is not positive
  int first_tile = 0, end_tile = 0;
  TokenRange unmasked{0, 0};  // tiles of keys that all of them see: they need no mask

  template <class Shape>
  __device__ __forceinline__ Fp8Rows(const Shape& shape, int first_query, int rows)
      : first(first_query), count(min(shape.tokens - first_query, rows)) {
    using Mask = typename Config::Mask;
    if (count <= 0) return;
    const int last = first + count - 1;
    const TokenRange seen = keys_of_any<Mask>(shape, first, last);
    const TokenRange seen_by_all = keys_of_all<Mask>(shape, first, last);
    first_tile = seen.first / kFp8Columns;
    end_tile = (seen.end + kFp8Columns - 1) / kFp8Columns;
    unmasked = {(seen_by_all.first + kFp8Columns - 1) / kFp8Columns, seen_by_all.end / kFp8Columns};
  }

  __device__ __forceinline__ bool needs_mask(int tile) const {
    using Mask = typename Config::Mask;
    return tile >= unmasked.end || (Mask::hides_earlier && tile < unmasked.first);
  }
};

}  // namespace hydrac::cuda
