// How the search for a row's largest logits is launched. Plain C++; no CUDA.
#pragma once
#include <cstdint>

namespace hydrac::cuda {

inline constexpr int kTop = 64;          // logits that are found
inline constexpr int kTopThreads = 256;  // of a block
inline constexpr int kTopColumns =
    64 * kTop;  // of a block of the first kernel: as many runs as the second takes
inline constexpr int kMostTopParts = 64;

constexpr int top_parts(int columns) {
  return (columns + kTopColumns - 1) / kTopColumns;
}
constexpr bool finds_top(std::int64_t columns) {
  return columns <= std::int64_t{kMostTopParts} * kTopColumns;
}

// Of each row and part kTop keys of 8 bytes, then its largest logit and sum.
constexpr std::int64_t top_workspace_bytes(int rows, int columns) {
  return std::int64_t{rows} * top_parts(columns) * (kTop + 1) * 8;
}

}  // namespace hydrac::cuda
