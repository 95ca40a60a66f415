// The norms that norm_matmul_test.cu and norm_matmul_bench.cu put behind a matmul, as generated kernels
// compute them. c is the matmul [m,n]; tensors in comments have its rows where they say nothing else.
#pragma once
#include "cuda/matmul/matmul.cuh"
#include "cuda/vector.cuh"

namespace hydrac::test {

constexpr float kNormEpsilon = 1e-5f;

// What a layernorm's kernels read and write, R being the residual's type.
template <class T, class R>
struct NormForward {
  const T* bias;                // [n]
  const R* residual;            // [m,n]
  const float *weight, *shift;  // [n]
  R* sum;                       // [m,n]
  T* normed;                    // [m,n]
  float *mean, *rstd;           // [m]
};
template <class T, class R>
struct NormBackward {
  const R* x;                // [m,n]
  const float* weight;       // [n]
  const float *mean, *rstd;  // [m]
  const R* d_residual;       // [m,n]
  R* d_sum;                  // [m,n]
  T* d_sum_copy;             // [m,n], nullptr where R is T
};

// sum = residual + c + bias, normed = (sum - mean) rstd weight + shift.
template <class T, class R, int n>
struct AddLayernorm {
  static constexpr int sums = 0, passes = 3, reductions = 1;
  struct Operands {
    Vector<R, 8> residual;
  };
  struct Kept {
    float sum[8], mean;
  };
  NormForward<T, R> t;
  Vector<T, 8> bias_in;
  Vector<float, 8> weight_in, shift_in;

  __device__ void begin(int column) {
    load_columns<8>(bias_in, t.bias + column);
    load_columns<4>(weight_in, t.weight + column);
    load_columns<4>(shift_in, t.shift + column);
  }
  __device__ Operands load(std::int64_t row, int column) const {
    return {load_columns<8, 16 / sizeof(R)>(t.residual + row * n + column)};
  }
  template <int pass>
  __device__ void apply(std::int64_t row, int column, const Vector<T, 8>& values, const Operands& in,
                        Kept& kept, const float (&totals)[1], float (&partial)[1]) {
    if constexpr (pass == 0) {
      float out[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        out[j] = element(in.residual, j) + (element(values, j) + element(bias_in, j));
        kept.sum[j] = round_to<R>(out[j]);
        partial[0] += kept.sum[j];
      }
      store_columns<16 / sizeof(R)>(t.sum + row * n + column, out);
    } else if constexpr (pass == 1) {
      kept.mean = totals[0] * (1.0f / n);
      if (column == 0) t.mean[row] = kept.mean;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float centered = kept.sum[j] - kept.mean;
        partial[0] += centered * centered;
      }
    } else {
      const float rstd = rsqrt(totals[0] * (1.0f / n) + kNormEpsilon);
      if (column == 0) t.rstd[row] = rstd;
      float out[8];
#pragma unroll
      for (int j = 0; j < 8; ++j)
        out[j] = (kept.sum[j] - kept.mean) * rstd * weight_in.at[j] + shift_in.at[j];
      store_columns<8>(t.normed + row * n + column, out);
    }
  }
};

// The same without bias, mean and shift: normed = sum rstd weight.
template <class T, class R, int n>
struct AddRmsnorm {
  static constexpr int sums = 0, passes = 2, reductions = 1;
  struct Operands {
    Vector<R, 8> residual;
  };
  struct Kept {
    float sum[8];
  };
  NormForward<T, R> t;
  Vector<float, 8> weight_in;

  __device__ void begin(int column) { load_columns<4>(weight_in, t.weight + column); }
  __device__ Operands load(std::int64_t row, int column) const {
    return {load_columns<8, 16 / sizeof(R)>(t.residual + row * n + column)};
  }
  template <int pass>
  __device__ void apply(std::int64_t row, int column, const Vector<T, 8>& values, const Operands& in,
                        Kept& kept, const float (&totals)[1], float (&partial)[1]) {
    float out[8];
    if constexpr (pass == 0) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        out[j] = element(in.residual, j) + element(values, j);
        kept.sum[j] = round_to<R>(out[j]);
        partial[0] += kept.sum[j] * kept.sum[j];
      }
      store_columns<16 / sizeof(R)>(t.sum + row * n + column, out);
    } else {
      const float rstd = rsqrt(totals[0] * (1.0f / n) + kNormEpsilon);
      if (column == 0) t.rstd[row] = rstd;
#pragma unroll
      for (int j = 0; j < 8; ++j) out[j] = kept.sum[j] * rstd * weight_in.at[j];
      store_columns<8>(t.normed + row * n + column, out);
    }
  }
};

// c is the gradient of a layernorm's output: d_sum, and the sums over the rows of c xhat, c and d_sum.
template <class T, class R, int n>
struct LayernormBackwardAdd {
  static constexpr int sums = 3, passes = 2, reductions = 2;
  struct Operands {
    Vector<R, 8> x, d_residual;
    float mean, rstd;
  };
  struct Kept {};
  NormBackward<T, R> t;
  float* partials[sums];
  float sum[sums][8];
  Vector<float, 8> weight_in;

  __device__ void begin(int column) { load_columns<4>(weight_in, t.weight + column); }
  __device__ Operands load(std::int64_t row, int column) const {
    const std::int64_t at = row * n + column;
    return {load_columns<8, 16 / sizeof(R)>(t.x + at), load_columns<8, 16 / sizeof(R)>(t.d_residual + at),
            t.mean[row], t.rstd[row]};
  }
  template <int pass>
  __device__ void apply(std::int64_t row, int column, const Vector<T, 8>& values, const Operands& in, Kept&,
                        const float (&totals)[2], float (&partial)[2]) {
    float out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float xhat = (element(in.x, j) - in.mean) * in.rstd, d = element(values, j);
      const float g = d * weight_in.at[j];
      if constexpr (pass == 0) {
        partial[0] += g;
        partial[1] += g * xhat;
        sum[0][j] += d * xhat;
        sum[1][j] += d;
      } else {
        const float d_x = in.rstd * (g - totals[0] * (1.0f / n) - xhat * (totals[1] * (1.0f / n)));
        out[j] = element(in.d_residual, j) + round_to<R>(d_x);
        sum[2][j] += round_to<R>(out[j]);
      }
    }
    if constexpr (pass == 1) {
      store_columns<16 / sizeof(R)>(t.d_sum + row * n + column, out);
      if (t.d_sum_copy != nullptr) store_columns<8>(t.d_sum_copy + row * n + column, out);
    }
  }
};

}  // namespace hydrac::test
