// The contract of templates/cuda/small_matmul/small_matmul.cuh, for the emulator: that of the other matmul
// kernel, with tiles of its own.
#pragma once
#include "cuda/matmul/matmul.cuh"
#include "cuda/small_matmul/geometry.h"

namespace hydrac::cuda {

template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, SmallMatmulTile tile_>
struct SmallMatmulConfig {
  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_), k = static_cast<int>(k_), columns = n;
  static constexpr bool b_transposed = b_transposed_, paired = false;
  static constexpr SmallMatmulTile tile = tile_;
};

template <class Config, class Epilogue>
void small_matmul(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
  matmul<Config>(a, b, rows, epilogue);
}

}  // namespace hydrac::cuda
