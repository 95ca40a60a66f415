// How a transpose is launched. Plain C++; no CUDA.
#pragma once
#include <cstdint>

namespace hydrac::cuda {

inline constexpr int kTransposeTile = 128;  // rows and columns that a block turns
inline constexpr int kTransposeThreads = 256;

constexpr std::int64_t transpose_blocks(std::int64_t rows, std::int64_t columns) {
  return (rows + kTransposeTile - 1) / kTransposeTile * ((columns + kTransposeTile - 1) / kTransposeTile);
}

}  // namespace hydrac::cuda
