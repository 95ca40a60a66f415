// The tiles of attention_gradients, and how much of its work is in hand at a time. Plain C++; no CUDA.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac {

// Blocks of keys, tiles of queries, and the head dimension it is made for.
inline constexpr int kGradientRows = 128, kGradientColumns = 64, kGradientDim = 64;

// Query tiles of one head: both halves of a block's keys have one, even past the sequence.
HYDRAC_FN constexpr int gradient_query_tiles(std::int64_t tokens) {
  return static_cast<int>((tokens + kGradientRows - 1) / kGradientRows) * (kGradientRows / kGradientColumns);
}

// Number of kv heads (of the B * K = `rows`, with `group` query heads each) whose pieces of work
// attention_gradients has in hand at a time. Their tensors, 8 bytes an element with the sums of d_q, should
// stay in the L2 cache; but fewer than two pieces a multiprocessor wait for each other. Measured on an H200.
HYDRAC_FN constexpr int gradient_rows_at_once(int rows, int tokens, int group) {
  constexpr std::int64_t cache = 48 << 20;
  constexpr int pieces = 256;
  const std::int64_t row_bytes = static_cast<std::int64_t>(tokens) * group * kGradientDim * 8;
  const int blocks = (tokens + kGradientRows - 1) / kGradientRows;
  const int fitting = static_cast<int>(cache / row_bytes), needed = (pieces + blocks - 1) / blocks;
  const int most = fitting > needed ? fitting : needed, sections = (rows + most - 1) / most;
  return (rows + sections - 1) / sections;
}

}  // namespace hydrac
