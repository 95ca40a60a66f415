// How many blocks move rows of a history: plain C++ that the compiler and the kernels share.
#pragma once
#include <cstdint>

namespace hydrac::cuda {

inline constexpr int kHistoryThreads = 256;

// Elements that one thread moves in one access: of rows in parts of `width`, of at most 16 bytes.
constexpr int history_access(std::int64_t width, int element_bytes) {
  int elements = 16 / element_bytes;
  while (width % elements != 0) elements /= 2;
  return elements;
}

// Blocks of threads for `rows` rows in all.
constexpr std::int64_t history_blocks(std::int64_t rows, std::int64_t heads, std::int64_t width,
                                      int element_bytes) {
  const std::int64_t threads = rows * heads * (width / history_access(width, element_bytes));
  return (threads + kHistoryThreads - 1) / kHistoryThreads;
}

}  // namespace hydrac::cuda
