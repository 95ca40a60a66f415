// The compile-time description of one attention kernel.
#pragma once
#include "cuda/attention/block.h"
#include "cuda/attention/geometry.h"
#include "cuda/types.cuh"
// Behind the shapes, which specialized policies name.
#include "attention/mask.h"
#include "attention/scores.h"

namespace hydrac::cuda {

using PackedShape = Packed<SequenceShape>;

// Inputs of a mask, for a sequence.
template <class Mask>
struct SequenceOf {
  using Type = SequenceShape;
};
template <class Within>
struct SequenceOf<DocumentMask<Within>> {
  using Type = PackedShape;
};

// The tiles of a kernel, and what the spec asks of it.
template <class Storage_, int head_dim_, AttentionFamily family_, AttentionTile tile_, class Mask_,
          class Scores_, bool has_dropout_>
struct AttentionConfig {
  using Storage = Storage_;
  static constexpr int head_dim = head_dim_;
  static constexpr AttentionFamily family = family_;
  static constexpr AttentionTile tile = tile_;
  using Mask = Mask_;
  using Sequence = typename SequenceOf<Mask_>::Type;
  using Scores = Scores_;
  static constexpr bool causal = Mask_::hides_later;
  static constexpr bool has_dropout = has_dropout_;

  static constexpr int padded_dim = padded_head_dim(head_dim);
  static constexpr int row_tiles = tile.row_tiles;  // of 16 rows, a warp
  static constexpr int rows = tile.rows();          // that a block has
  static constexpr int threads = tile.threads();    // that compute
  static constexpr int columns = tile.columns;      // of the other side, a tile
  static constexpr int warps = tile.warps;          // that compute
  static constexpr int stages = tile.stages;        // tiles in shared memory
  static constexpr int row_bytes =
      attention_row_bytes(family == AttentionFamily::hopper, head_dim, sizeof(Storage));
  static_assert(head_dim % 8 == 0 && head_dim >= 8 && head_dim <= 256);
};

}  // namespace hydrac::cuda
