// Strides between the matrices of a batched matmul.
#pragma once
#include <cstdint>

namespace hydrac::runtime {

// Elements from one matrix to the next: a multiple of 64, so that each is as aligned as the first.
constexpr std::int64_t batch_stride(std::int64_t rows, std::int64_t columns) {
  return (rows * columns + 63) / 64 * 64;
}

}  // namespace hydrac::runtime
