// The compile-time description of a matmul whose epilogue sees whole rows.
#pragma once
#include "cuda/row_matmul/geometry.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// Storage is bf16 or f16; the rest as in MatmulProblem. The rows of a are no part of it: they may be known
// at run time.
template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, RowMatmulTile tile_>
struct RowMatmulConfig {
  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_);
  static constexpr int k = static_cast<int>(k_);
  static constexpr bool b_transposed = b_transposed_;
  static constexpr RowMatmulTile tile = tile_;
  static_assert(n == tile.across * tile.columns() && tile.panels % tile.down == 0);

  static constexpr int depth_tiles = (k + RowMatmulTile::depth - 1) / RowMatmulTile::depth;
  static constexpr bool is_ring = depth_tiles > tile.stages;  // stages are filled more than once

  // Of a: one block has all of the matmul's columns.
  static constexpr bool reads_rows_once = tile.has_whole_rows();

  // How the epilogue shares the block's rows: a thread has eight columns of every row that it takes. Threads
  // of whole rows in whole warps are a team, which has some of the rows to itself.
  static constexpr int matmul_threads = tile.warpgroups() * 128;
  static constexpr int epilogue_threads = tile.epilogue_threads();
  static constexpr int row_threads = n / 8;
  static constexpr int rows = tile.rows / tile.across;  // of the block
  static constexpr int team_threads = row_threads == 48 ? 96 : 32;
  static constexpr int team_groups = team_threads / row_threads;  // rows of a team at a time
  static constexpr int teams = epilogue_threads / team_threads;
  static constexpr int team_rows = rows / teams;
  static constexpr int steps = team_rows / team_groups;  // rows of a thread
  static_assert(team_threads % row_threads == 0 && rows % teams == 0 && team_rows % team_groups == 0);
};

}  // namespace hydrac::cuda
