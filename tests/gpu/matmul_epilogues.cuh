// The epilogues that matmul_bench.cu times: what the generated kernels behind a matmul compute. c is the
// matmul [m,n]; the tensors that stand in the comments have its rows.
#pragma once
#include "cuda/matmul/matmul.cuh"
#include "cuda/vector.cuh"

namespace hydrac::test {

struct NoOperands {};

// y = c.
template <class T, int n>
struct Bare {
  static constexpr int sums = 0;
  using Operands = NoOperands;
  T* y;  // [m,n]

  __device__ void begin(int) {}
  __device__ Operands load(std::int64_t, int) const { return {}; }
  __device__ void operator()(std::int64_t row, int column, const Vector<T, 8>& values, const Operands&) {
    store(y + row * n + column, values);
  }
};

// y = c + bias.
template <class T, int n>
struct AddBias {
  static constexpr int sums = 0;
  using Operands = NoOperands;
  T* y;           // [m,n]
  const T* bias;  // [n]
  Vector<T, 8> bias_in;

  __device__ void begin(int column) { bias_in = load_columns<8>(bias + column); }
  __device__ Operands load(std::int64_t, int) const { return {}; }
  __device__ void operator()(std::int64_t row, int column, const Vector<T, 8>& values, const Operands&) {
    float out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) out[j] = element(values, j) + element(bias_in, j);
    store_columns<8>(y + row * n + column, out);
  }
};

// y = gelu(c + bias), tanh's approximation; keeps c if there is room for it.
template <class T, int n>
struct Gelu {
  static constexpr int sums = 0;
  using Operands = NoOperands;
  T *c, *y;       // [m,n]
  const T* bias;  // [n]
  Vector<T, 8> bias_in;

  __device__ void begin(int column) { bias_in = load_columns<8>(bias + column); }
  __device__ Operands load(std::int64_t, int) const { return {}; }
  __device__ void operator()(std::int64_t row, int column, const Vector<T, 8>& values, const Operands&) {
    float out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float x = element(values, j) + element(bias_in, j);
      out[j] = x * sigmoid_of_16_bits(x * fma(x * x, 0.071354814f, 1.5957692f));
    }
    if (c != nullptr) store(c + row * n + column, values);
    store_columns<8>(y + row * n + column, out);
  }
};

// c is d_y of the above: d_x, its column sums, and y again.
template <class T, int n>
struct GeluBackward {
  static constexpr int sums = 1;
  struct Operands {
    Vector<T, 8> x;
  };
  const T *x, *bias;  // [m,n] without the bias, [n]
  T *d_x, *y;         // [m,n]
  float* partials[sums];
  float sum[sums][8];
  Vector<T, 8> bias_in;

  __device__ void begin(int column) { bias_in = load_columns<8>(bias + column); }
  __device__ Operands load(std::int64_t row, int column) const {
    return {load_columns<8>(x + row * n + column)};
  }
  __device__ void operator()(std::int64_t row, int column, const Vector<T, 8>& values, const Operands& in) {
    float out[8], d_out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float value = element(in.x, j) + element(bias_in, j), square = value * value;
      const float s = sigmoid_of_16_bits(value * fma(square, 0.071354814f, 1.5957692f));
      const float y_value = value * s;
      out[j] = y_value;
      d_out[j] = element(values, j) * fma(fma(-y_value, s, y_value), fma(square, 0.21406445f, 1.5957692f), s);
      sum[0][j] += round_to<T>(d_out[j]);
    }
    store_columns<8>(d_x + row * n + column, d_out);
    store_columns<8>(y + row * n + column, out);
  }
};

// y = silu(gate) * up of a paired matmul; keeps the matmul if there is room for it.
template <class T, int n>
struct Swiglu {
  static constexpr int sums = 0;
  using Operands = NoOperands;
  T *gate_up, *y;  // [m,n], [m,n/2]

  __device__ void begin(int) {}
  __device__ Operands load(std::int64_t, int) const { return {}; }
  __device__ void operator()(std::int64_t row, int column, const Vector<T, 8>& gate, const Vector<T, 8>& up,
                             const Operands&) {
    float out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float x = element(gate, j);
      out[j] = x * sigmoid_of_16_bits(x) * element(up, j);
    }
    if (gate_up != nullptr) {
      store(gate_up + row * n + column, gate);
      store(gate_up + row * n + n / 2 + column, up);
    }
    store_columns<8>(y + row * (n / 2) + column, out);
  }
};

// c is d_y of the above: d_gate, d_up, and y again.
template <class T, int n>
struct SwigluBackward {
  static constexpr int sums = 0;
  struct Operands {
    Vector<T, 8> gate, up;
  };
  const T* gate_up;  // [m,2n]
  T *d_gate_up, *y;  // [m,2n], [m,n]

  __device__ void begin(int) {}
  __device__ Operands load(std::int64_t row, int column) const {
    const T* const from = gate_up + row * 2 * n + column;
    return {load_columns<8>(from), load_columns<8>(from + n)};
  }
  __device__ void operator()(std::int64_t row, int column, const Vector<T, 8>& values, const Operands& in) {
    float out[8], d_gate[8], d_up[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float x = element(in.gate, j), up = element(in.up, j), d = element(values, j);
      const float s = sigmoid_of_16_bits(x), silu = x * s;
      out[j] = silu * up;
      d_up[j] = d * silu;
      d_gate[j] = d * up * (s + fma(-silu, s, silu));
    }
    T* const to = d_gate_up + row * 2 * n + column;
    store_columns<8>(to, d_gate);
    store_columns<8>(to + n, d_up);
    store_columns<8>(y + row * n + column, out);
  }
};

}  // namespace hydrac::test
