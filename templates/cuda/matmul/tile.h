// The tiles that a block of the matmul kernel computes. Plain C++; no CUDA.
#pragma once
#include "hydrac/math.h"

namespace hydrac::cuda {

// How one block of threads works: two warpgroups take turns, one multiplying while the other runs the
// epilogue of its tile before. A tile adds up `depth` of k at a time, of which shared memory holds `stages`.
struct MatmulTile {
  int rows;  // 128 or 192
  int stages;

  static constexpr int columns = 128;
  static constexpr int depth = 64;   // 128 bytes, the width of the swizzle
  static constexpr int cluster = 2;  // blocks that share operands
  static constexpr int matmul_warps = 8;
  static constexpr int threads = 384;  // with four warps of which one copies
  static constexpr int barrier_bytes = 256;

  HYDRAC_FN constexpr int stage_bytes() const { return (rows + columns) * depth * 2; }
  // Half of a tile's results on its way to the epilogue, of each warpgroup.
  HYDRAC_FN constexpr int result_bytes() const { return rows / 2 * columns * 2; }
  HYDRAC_FN constexpr int shared_bytes() const {
    return stages * stage_bytes() + 2 * result_bytes() + barrier_bytes;
  }
};

}  // namespace hydrac::cuda
