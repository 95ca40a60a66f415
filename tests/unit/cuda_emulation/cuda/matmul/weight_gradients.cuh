// The contract of templates/cuda/matmul/weight_gradients.cuh in plain loops, for the emulator,
// which has neither copy engine nor tensor cores. A tensor map's first word is the matrix's address.
#pragma once
#include "cuda/matmul/weight_gradients.h"
#include "cuda/previous_kernel.cuh"
#include "cuda/tensor_map.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

template <class Storage_, std::int64_t rows_, bool accumulate_, WeightGradientTile tile_>
struct WeightGradientsConfig {
  using Storage = Storage_;
  static constexpr std::int64_t rows = rows_;
  static constexpr bool accumulate = accumulate_;
  static constexpr WeightGradientTile tile = tile_;
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

// Each thread takes elements of each gradient.
template <class Config, int count>
void weight_gradients(const WeightGradient (&gradients)[count]) {
  wait_for_previous_kernel();
  launch_next_kernel();
  const int first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
            threads = static_cast<int>(gridDim.x * blockDim.x);
  for (const WeightGradient& gradient : gradients) {
    for (int i = first; i < gradient.m * gradient.n; i += threads) {
      const float sum = weight_gradient<Config>(gradient, i / gradient.n, i % gradient.n);
      gradient.d_w[i] = Config::accumulate ? gradient.d_w[i] + sum : sum;
    }
  }
}

}  // namespace hydrac::cuda
