// Those of matmul_epilogues.cuh that a matmul with b in shared memory takes: what they compute is the same,
// bit by bit.
#pragma once
#include "cuda/stationary_matmul/stationary_matmul.cuh"
#include "cuda/vector.cuh"

namespace hydrac::test {

// y = c + bias.
template <class T>
struct ElementwiseAddBias {
  static constexpr int outputs = 1;
  struct Outputs {
    Vector<T, 8> y;
  };
  const TensorMap* matrices[outputs];
  const T* bias;  // [n]
  Vector<T, 8> bias_in;

  __device__ void begin(const cuda::ElementColumns& columns) { bias_in = cuda::load_elements(bias, columns); }
  __device__ Outputs operator()(const Vector<T, 8>& values) {
    Outputs out;
    float y[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) y[j] = element(values, j) + element(bias_in, j);
    store_columns<8>(out.y.at, y);
    return out;
  }
};

// c and y = gelu(c + bias), tanh's approximation.
template <class T>
struct ElementwiseGelu {
  static constexpr int outputs = 2;
  struct Outputs {
    Vector<T, 8> c, y;
  };
  const TensorMap* matrices[outputs];
  const T* bias;  // [n]
  Vector<T, 8> bias_in;

  __device__ void begin(const cuda::ElementColumns& columns) { bias_in = cuda::load_elements(bias, columns); }
  __device__ Outputs operator()(const Vector<T, 8>& values) {
    Outputs out{values, {}};
    float y[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float x = element(values, j) + element(bias_in, j);
      y[j] = x * sigmoid_of_16_bits(x * fma(x * x, 0.071354814f, 1.5957692f));
    }
    store_columns<8>(out.y.at, y);
    return out;
  }
};

}  // namespace hydrac::test
