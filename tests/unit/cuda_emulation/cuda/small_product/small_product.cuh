// The contract of templates/cuda/small_product/small_product.cuh, for the emulator: that of the other product
// kernel, with tiles of its own.
#pragma once
#include "cuda/product/product.cuh"
#include "cuda/small_product/geometry.h"

namespace hydrac::cuda {

template <class Storage_, std::int64_t n_, std::int64_t k_, bool b_transposed_, SmallProductTile tile_>
struct SmallProductConfig {
  using Storage = Storage_;
  static constexpr int n = static_cast<int>(n_), k = static_cast<int>(k_), columns = n;
  static constexpr bool b_transposed = b_transposed_, paired = false;
  static constexpr SmallProductTile tile = tile_;
};

template <class Config, class Epilogue>
void small_product(const TensorMap& a, const TensorMap& b, std::int64_t rows, Epilogue& epilogue) {
  product<Config>(a, b, rows, epilogue);
}

}  // namespace hydrac::cuda
