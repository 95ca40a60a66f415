// The contract of templates/cuda/weight_gradients/weight_gradients.cuh in plain loops, for the emulator,
// which has neither copy engine nor tensor cores. A tensor map's first word is the matrix's address.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/tensor_map.h"
#include "cuda/types.cuh"
#include "cuda/weight_gradients/geometry.h"

namespace hydrac::cuda {

template <class Storage_, std::int64_t rows_, bool accumulate_, WeightGradientTile>
struct WeightGradientsConfig {
  using Storage = Storage_;
  static constexpr std::int64_t rows = rows_;
  static constexpr bool accumulate = accumulate_;
};

struct WeightGradient {
  const TensorMap* d_y;
  const TensorMap* x;
  float* d_w;
  int m, n;
};

// Each thread takes elements of each gradient.
template <class Config, int count>
void weight_gradients(const WeightGradient (&gradients)[count]) {
  wait_for_previous_kernel();
  launch_next_kernel();
  using Storage = typename Config::Storage;
  for (const WeightGradient& gradient : gradients) {
    const auto* d_y = reinterpret_cast<const Storage*>(gradient.d_y->words[0]);
    const auto* x = reinterpret_cast<const Storage*>(gradient.x->words[0]);
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
         i < static_cast<unsigned>(gradient.m * gradient.n); i += gridDim.x * blockDim.x) {
      float sum = 0.0f;
      for (std::int64_t row = 0; row < Config::rows; ++row)
        sum +=
            to_float(d_y[row * gradient.m + i / gradient.n]) * to_float(x[row * gradient.n + i % gradient.n]);
      gradient.d_w[i] = Config::accumulate ? gradient.d_w[i] + sum : sum;
    }
  }
}

}  // namespace hydrac::cuda
