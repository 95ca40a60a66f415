// The contract of templates/cuda/weight_gradients/weight_gradients.cuh in plain loops, for the emulator,
// which has neither copy engine nor tensor cores. A tensor map's first word is the matrix's address.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/tensor_map.h"
#include "cuda/types.cuh"
#include "cuda/weight_gradients/geometry.h"

namespace hydrac::cuda {

template <class Storage_, std::int64_t rows_, bool accumulate_, bool squares_, WeightGradientTile tile_>
struct WeightGradientsConfig {
  using Storage = Storage_;
  static constexpr std::int64_t rows = rows_;
  static constexpr bool accumulate = accumulate_, squares = squares_;
  static constexpr WeightGradientTile tile = tile_;
  static_assert(!squares || !accumulate);
};

struct WeightGradient {
  const TensorMap* d_y;
  const TensorMap* x;
  float* d_w;
  int m, n;
};

// Element [i,j] of d_y^T . x.
template <class Config>
float weight_gradient(const WeightGradient& gradient, int i, int j) {
  using Storage = typename Config::Storage;
  const auto* d_y = reinterpret_cast<const Storage*>(gradient.d_y->words[0]);
  const auto* x = reinterpret_cast<const Storage*>(gradient.x->words[0]);
  float sum = 0.0f;
  for (std::int64_t row = 0; row < Config::rows; ++row)
    sum += to_float(d_y[row * gradient.m + i]) * to_float(x[row * gradient.n + j]);
  return sum;
}

// The sum of squares of a piece of a gradient.
template <class Config>
float weight_gradient_square(const WeightGradient& gradient, int piece) {
  constexpr int rows = WeightGradientTile::piece_rows, columns = Config::tile.piece_columns();
  const int across = (gradient.n + columns - 1) / columns;
  const int first_row = piece / across * rows, first_column = piece % across * columns;
  float square = 0.0f;
  for (int i = first_row; i < first_row + rows && i < gradient.m; ++i) {
    for (int j = first_column; j < first_column + columns && j < gradient.n; ++j) {
      const float x = weight_gradient<Config>(gradient, i, j);
      square += x * x;
    }
  }
  return square;
}

// Each thread takes elements and pieces of each gradient.
template <class Config, int count>
void weight_gradients(const WeightGradient (&gradients)[count], float* squares = nullptr) {
  wait_for_previous_kernel();
  launch_next_kernel();
  const int first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
            threads = static_cast<int>(gridDim.x * blockDim.x);
  int pieces = 0;
  for (const WeightGradient& gradient : gradients) {
    for (int i = first; i < gradient.m * gradient.n; i += threads) {
      const float sum = weight_gradient<Config>(gradient, i / gradient.n, i % gradient.n);
      gradient.d_w[i] = Config::accumulate ? gradient.d_w[i] + sum : sum;
    }
    if constexpr (Config::squares) {
      const int own = weight_gradient_pieces(gradient.m, gradient.n, Config::tile);
      for (int i = first; i < own; i += threads)
        squares[pieces + i] = weight_gradient_square<Config>(gradient, i);
      pieces += own;
    }
  }
}

}  // namespace hydrac::cuda
