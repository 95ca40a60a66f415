// The compile-time description of a product whose epilogue sees whole rows.
#pragma once
#include "cuda/row_product/geometry.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// Storage is bf16 or f16; the rest as in ProductProblem. The rows of a are no part of it: they may be known
// at run time.
template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, RowProductTile tile_>
struct RowProductConfig {
  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_);
  static constexpr int k = static_cast<int>(k_);
  static constexpr bool b_transposed = b_transposed_;
  static constexpr RowProductTile tile = tile_;
  static_assert(n == tile.across * tile.columns() && tile.panels % tile.down == 0);

  static constexpr int depth_tiles = (k + RowProductTile::depth - 1) / RowProductTile::depth;
  static constexpr bool is_ring = depth_tiles > tile.stages;  // stages are filled more than once

  // How the epilogue shares the block's rows: a thread has eight columns of every row that it takes.
  static constexpr int product_threads = tile.warpgroups() * 128;
  static constexpr int row_threads = n / 8;
  static constexpr int groups = product_threads / row_threads;  // rows at a time
  static constexpr int rows = tile.rows / tile.across;          // of the block
  static constexpr int steps = rows / groups;                   // rows of a thread
  static_assert(product_threads % row_threads == 0 && rows % groups == 0);
};

}  // namespace hydrac::cuda
