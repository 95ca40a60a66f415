// Who computes what in attention_gradients, and in which order.
//
// A block takes one piece of work after another: a block of keys, and the query tiles that see it, of all
// heads that share the kv head. d_k and d_v are the piece's own; to d_q several pieces add. Additions to a
// tile are in one order, that of the keys, so that every run gives the same bits: who adds waits for its
// turn. Pieces are handed out in an order in which nobody waits for a piece that is not begun, and the first
// block of keys, which adds first, is begun first. All go through the queries from the last one on; so
// whoever began earlier is ahead at every tile, and waits are rare.
#pragma once
#include "cuda/attention/config.cuh"
#include "cuda/attention/gradient_workspace.cuh"

namespace hydrac::cuda {

// A query tile of one head as part of a piece of work.
struct GradientTile {
  int batch, kv_head;
  int block;  // of keys
  int head, tile;

  __device__ __forceinline__ int first_key() const { return block * kGradientRows; }
  __device__ __forceinline__ int first_query() const { return tile * kGradientColumns; }

  // The first and the last block of keys that its queries see: one adds first, the other last.
  template <class Mask>
  __device__ __forceinline__ int first_block(const SequenceShape& shape) const {
    return Mask::keys_of(shape, first_query()).first / kGradientRows;
  }
  template <class Mask>
  __device__ __forceinline__ int last_block(const SequenceShape& shape) const {
    return (Mask::keys_of(shape, first_query()).end - 1) / kGradientRows;
  }
  __device__ __forceinline__ int row(const SequenceShape& shape) const { return batch * shape.heads + head; }
  // Its place among all tiles.
  __device__ __forceinline__ std::int64_t index(const AttentionShape& shape) const {
    return static_cast<std::int64_t>(row(shape)) * gradient_query_tiles(shape.tokens) + tile;
  }
  // Goes on to the next tile of the piece: the heads of one tile, then the tile before.
  __device__ __forceinline__ void advance(const AttentionShape& shape) {
    const int group = shape.heads / shape.kv_heads;
    if (++head == (kv_head + 1) * group) head -= group, --tile;
  }
};

// A piece of work by its number. Long pieces come before short ones, of gradient_rows_at_once() kv heads at a
// time, which find their tensors in the L2 cache.
struct GradientPiece {
  GradientTile first;
  int tiles;

  template <class Mask>
  static __device__ __forceinline__ GradientPiece of(const AttentionShape& shape, int number) {
    const int blocks = (shape.tokens + kGradientRows - 1) / kGradientRows;
    const int rows = shape.batch * shape.kv_heads, group = shape.heads / shape.kv_heads;
    const int at_once = gradient_rows_at_once(rows, shape.tokens, group);
    const int section = number / (at_once * blocks), in_section = number - section * (at_once * blocks);
    const int section_rows = min(at_once, rows - section * at_once);
    const int block = in_section / section_rows;
    const int row = section * at_once + in_section - block * section_rows;
    const int batch = row / shape.kv_heads, kv_head = row - batch * shape.kv_heads;
    const TokenRange tiles = query_tiles<Mask>(shape, block);
    return {{batch, kv_head, block, kv_head * group, tiles.end - 1}, (tiles.end - tiles.first) * group};
  }
  // The tiles of queries that see a block of keys.
  template <class Mask>
  static __device__ __forceinline__ TokenRange query_tiles(const SequenceShape& shape, int block) {
    const int first_key = block * kGradientRows;
    const TokenRange seeing = queries_of_any<Mask>(shape, first_key, first_key + kGradientRows - 1);
    const int all = gradient_query_tiles(shape.tokens);
    return {seeing.first / kGradientColumns,
            Mask::hides_earlier ? (seeing.end + kGradientColumns - 1) / kGradientColumns : all};
  }
  static __device__ __forceinline__ int count(const AttentionShape& shape) {
    return shape.batch * shape.kv_heads * ((shape.tokens + kGradientRows - 1) / kGradientRows);
  }
};

}  // namespace hydrac::cuda
