// The tiles that a block of a matmul kernel computes, and how its warps share the work. Plain C++; no CUDA.
#pragma once
#include "hydrac/math.h"

namespace hydrac::cuda {

enum class MatmulSchedule {
  // Blocks stay and take tile after tile. Two consumer warpgroups alternate: one runs the mainloop of its
  // tile while the other runs the epilogue of the tile before ("ping-pong").
  persistent,
  // A block computes one tile. Each consumer warpgroup has a panel of its columns ("cooperative").
  one_tile,
  // As one_tile, with all columns in a block, for an epilogue that sees whole rows. The blocks of a cluster
  // lie
  // one below the other and share b.
  whole_rows,
  // At most 64 rows, in one tile. The blocks of a cluster compute a part of k each; one consumer has all of a
  // tile's panels.
  few_rows,
};

// Matmuls are computed transposed: the columns of b are the rows of the tensor cores' instruction (M = 64),
// the rows of a its columns (N), so that a tile can have any height that N can.
struct MatmulTile {
  MatmulSchedule schedule;
  int rows;         // of a: 64, 128 or 192
  int panels;       // of 64 columns of b
  int stages;       // of the pipeline, each with `depth` of k
  int cluster = 1;  // blocks of a cluster that share operands
  int split = 1;    // blocks of a cluster that share a tile, of few_rows: 1, 2 or 4

  static constexpr int depth = 64;  // 128 bytes, the width of the swizzle
  static constexpr int panel_columns = 64;
  static constexpr int panel_bytes = panel_columns * depth * 2;  // of b, in a stage
  static constexpr int barrier_bytes = 256;

  HYDRAC_FN constexpr bool is_persistent() const { return schedule == MatmulSchedule::persistent; }
  HYDRAC_FN constexpr bool has_few_rows() const { return schedule == MatmulSchedule::few_rows; }
  HYDRAC_FN constexpr int columns() const { return panels * panel_columns; }
  // The warpgroups that multiply, and the panels that each has of a tile.
  HYDRAC_FN constexpr int consumer_panels() const {
    if (has_few_rows()) return panels;
    return schedule == MatmulSchedule::one_tile ? 1 : 2;
  }
  HYDRAC_FN constexpr int consumers() const { return is_persistent() ? 2 : panels / consumer_panels(); }
  // With one producer warp, or, where consumers need its registers, a warpgroup of which one thread works.
  HYDRAC_FN constexpr bool moves_registers() const {
    return schedule != MatmulSchedule::one_tile && !has_few_rows();
  }
  HYDRAC_FN constexpr int threads() const { return consumers() * 128 + (moves_registers() ? 128 : 32); }

  HYDRAC_FN constexpr int a_bytes() const { return rows * depth * 2; }  // of a stage
  HYDRAC_FN constexpr int stage_bytes() const { return a_bytes() + panels * panel_bytes; }
  // In how many parts a consumer brings its rows to the epilogue, and the shared memory of one. A block with
  // one tile leaves results where its operands were.
  HYDRAC_FN constexpr int parts() const { return is_persistent() ? 2 : 1; }
  HYDRAC_FN constexpr int result_bytes() const {
    return is_persistent() ? rows / parts() * columns() * 2 : 0;
  }
  // Messages between the blocks that share a tile, where the stages were.
  HYDRAC_FN constexpr int exchange_bytes() const { return split > 1 ? rows * columns() * 4 : 0; }
  HYDRAC_FN constexpr int shared_bytes() const {
    return stages * stage_bytes() + consumers() * result_bytes() + barrier_bytes;
  }
};

// Registers of a thread of the producer's warpgroup, and of a consumer, which gets what that one leaves of an
// even share.
inline constexpr int kProducerRegisters = 24;
HYDRAC_FN constexpr int consumer_registers(int consumers) {
  const int share = 65536 / ((consumers + 1) * 128) / 8 * 8;
  return ((consumers + 1) * share - kProducerRegisters) / consumers / 8 * 8;
}

}  // namespace hydrac::cuda
