// The compile-time description of one matmul kernel.
#pragma once
#include "cuda/matmul/problem.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// Matmul c [m,n] = a [m,k] . b, with b as [n,k] if `b_transposed`, else [k,n]. `paired`: the epilogue takes
// columns j and j + n / 2 together. The rows of a are no part of it: they may be known at run time. Storage
// is bf16 or f16. With `tail_k` the matmul is a . b + tail_a [m,tail_k] . tail_b, the latter laid out as b:
// its operands are the last stages of the loop over k. With `experts` b is that many matrices, and a tile's
// rows are multiplied by one of them.
template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, bool paired_,
          MatmulTile tile_, std::int64_t tail_k_ = 0, int experts_ = 0>
struct MatmulConfig {
  static_assert(n_ % (paired_ ? 16 : 8) == 0 && k_ % 8 == 0, "16 bytes of each row that is accessed");
  static_assert(tile_.shared_bytes() <= 227 << 10, "what a block of Hopper may have");
  static_assert(tail_k_ == 0 || (tile_.is_persistent() && tail_k_ % 8 == 0));
  static_assert(experts_ == 0 || (tile_.is_persistent() && kExpertRows % tile_.rows == 0 && tail_k_ == 0));

  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_);
  static constexpr int k = static_cast<int>(k_);
  static constexpr bool b_transposed = b_transposed_;
  static constexpr bool paired = paired_;
  static constexpr MatmulTile tile = tile_;
  static constexpr int tail_k = static_cast<int>(tail_k_);
  static constexpr bool has_tail = tail_k > 0;
  static constexpr int experts = experts_;

  static constexpr int columns = paired ? n / 2 : n;                                 // of the epilogue
  static constexpr int tile_columns = paired ? tile.columns() / 2 : tile.columns();  // of the epilogue
  static constexpr int column_tiles = (columns + tile_columns - 1) / tile_columns;
  // A block's tiles along k.
  static constexpr int depth_tiles = (k + tile.depth - 1) / tile.depth / tile.split;
  static_assert((k + tile.depth - 1) / tile.depth % tile.split == 0);
  static constexpr int tail_tiles = (tail_k + tile.depth - 1) / tile.depth;
  static constexpr int steps = depth_tiles + tail_tiles;  // of the mainloop
  static constexpr int epilogue_rows = tile.rows / tile.split;
  // Stages are filled more than once.
  static constexpr bool is_ring = tile.is_persistent() || depth_tiles > tile.stages;

  static constexpr int sides = paired ? 2 : 1;  // columns of b that the epilogue takes together
  // Columns of the epilogue in the panels of one consumer.
  static constexpr int consumer_columns = tile.consumer_panels() * tile.panel_columns / sides;
  // From panel to panel, in b: those of a paired tile are its two sides.
  static constexpr int panel_distance = paired ? n / 2 : tile.panel_columns;

  // The blocks of a cluster lie side by side and share their rows of a, or, where that would leave one
  // without columns, one below the other and share their columns of b.
  static constexpr int a_sharers =
      tile.is_persistent() && column_tiles % tile.cluster == 0 ? tile.cluster : 1;
  static constexpr int b_sharers = tile.cluster / a_sharers;
  static_assert(experts == 0 || b_sharers == 1, "rows below others may be another expert's");
  // A box that is copied of a: each of its sharers copies as many rows for all of them.
  static constexpr int a_box_rows = tile.rows / a_sharers;
  // No other block reads the rows of a.
  static constexpr bool reads_a_once = tile.schedule == MatmulSchedule::whole_rows;
};

}  // namespace hydrac::cuda
