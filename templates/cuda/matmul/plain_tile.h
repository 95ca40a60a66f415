// Tiles of the matmuls of experts on any GPU (cuda/matmul/plain_experts.cuh). Plain C++; no CUDA.
#pragma once
#include "cuda/matmul/problem.h"

namespace hydrac::cuda {

// A block's tile of the result: 128 rows, all of one expert, and 128 columns.
inline constexpr int kPlainTile = kExpertRows, kPlainThreads = 256;
// Bytes of an operand along what is summed over, in a stage; its rows in shared memory have 16 more at most.
inline constexpr int kPlainDepthBytes = 64;
inline constexpr int kPlainSharedBytes = 2 * 2 * kPlainTile * (kPlainDepthBytes + 16);  // dynamic

HYDRAC_FN constexpr std::int64_t plain_matmul_blocks(std::int64_t rows, std::int64_t n) {
  return tiles_of(rows, kPlainTile) * tiles_of(n, kPlainTile);
}
HYDRAC_FN constexpr std::int64_t plain_gradient_blocks(int experts, std::int64_t m, std::int64_t n) {
  return experts * tiles_of(m, kPlainTile) * tiles_of(n, kPlainTile);
}

// True where two numbers of 16 bits are multiplied by mma.sync; floats are, by fma.
HYDRAC_FN constexpr bool plain_uses_mma(int capability, bool is_bf16, int bytes) {
  return bytes == 2 && capability >= (is_bf16 ? 80 : 75);
}

}  // namespace hydrac::cuda
