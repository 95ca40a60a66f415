// How the search for a row's largest logits, and the draw from a whole row, are launched. Plain C++; no CUDA.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac::cuda {

inline constexpr int kTop = 64;              // logits that are found
inline constexpr int kTopThreads = 256;      // of a block of the first kernel
inline constexpr int kSelectThreads = 1024;  // of a block of the second
inline constexpr int kTopGroup = 16;         // columns of a thread of the first kernel, side by side
inline constexpr int kTopColumns = kTopThreads * kTopGroup;  // of a block of the first kernel
inline constexpr int kMostTopParts = 64;

HYDRAC_FN constexpr int top_parts(int columns) {
  return (columns + kTopColumns - 1) / kTopColumns;
}
HYDRAC_FN constexpr bool finds_top(std::int64_t columns) {
  return columns <= std::int64_t{kMostTopParts} * kTopColumns;
}

// For each row and part, its groups' largest logits, then its largest logit and sum. f32.
constexpr std::int64_t top_workspace_bytes(int rows, int columns) {
  return std::int64_t{rows} * top_parts(columns) * (kTopThreads + 2) * 4;
}

}  // namespace hydrac::cuda
