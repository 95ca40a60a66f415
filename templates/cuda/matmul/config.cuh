// The compile-time description of one matmul kernel.
#pragma once
#include "cuda/matmul/tile.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// Of c [m,n] = a [m,k] . b, with b as [n,k] if `b_transposed`, else [k,n]. `paired`: the epilogue takes
// columns j and j + n / 2 together. The rows of a are no part of it: they may be known at run time. Storage
// is bf16 or f16.
template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, bool paired_,
          MatmulTile tile_>
struct MatmulConfig {
  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_);
  static constexpr int k = static_cast<int>(k_);
  static constexpr bool b_transposed = b_transposed_;
  static constexpr bool paired = paired_;
  static constexpr MatmulTile tile = tile_;

  static constexpr int columns = paired ? n / 2 : n;                         // of the epilogue
  static constexpr int half_columns = tile.columns / 2;                      // of a tile of b
  static constexpr int half_distance = paired ? n / 2 : half_columns;        // from half to half, in b
  static constexpr int tile_columns = paired ? half_columns : tile.columns;  // of the epilogue
  static constexpr int column_tiles = (columns + tile_columns - 1) / tile_columns;
  // The blocks of a cluster lie side by side and share their rows of a, or, where that would leave one
  // without columns, one below the other and share their columns of b.
  static constexpr bool side_by_side = column_tiles % tile.cluster == 0;
  static constexpr int cluster_columns = side_by_side ? tile.cluster : 1;  // in tiles
  static constexpr int cluster_rows = tile.cluster / cluster_columns;
  static constexpr int depth_tiles = (k + tile.depth - 1) / tile.depth;

  static constexpr int a_bytes = tile.rows * tile.depth * 2;
  static constexpr int half_b_bytes = half_columns * tile.depth * 2;
  static constexpr int result_row_bytes = tile.columns * 2;
};

}  // namespace hydrac::cuda
