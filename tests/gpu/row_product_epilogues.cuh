// The norms that row_product_test.cu and row_product_bench.cu put behind a product, as generated kernels
// compute them. c is the product [m,n]; tensors in comments have its rows where they say nothing else.
#pragma once
#include "cuda/row_product/row_product.cuh"
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

// Eight columns, as Vectors of 16 bytes at most.
template <class R>
__device__ void load_eight(Vector<R, 4> (&to)[2], const R* from) {
  if constexpr (sizeof(R) == 2) {
    const auto words = __builtin_bit_cast(Vector<std::uint32_t, 4>, load<8>(from));
    to[0] = __builtin_bit_cast(Vector<R, 4>, Vector<std::uint32_t, 2>{words.at[0], words.at[1]});
    to[1] = __builtin_bit_cast(Vector<R, 4>, Vector<std::uint32_t, 2>{words.at[2], words.at[3]});
  } else {
    to[0] = load<4>(from), to[1] = load<4>(from + 4);
  }
}

// sum = residual + c + bias, normed = (sum - mean) rstd weight + shift.
template <class T, class R, int n>
struct AddLayernorm {
  static constexpr int sums = 0, passes = 3, reductions = 1;
  struct Operands {
    Vector<R, 4> residual[2];
  };
  struct Kept {
    float sum[8], mean;
  };
  NormForward<T, R> t;
  Vector<T, 8> bias_in;
  Vector<float, 4> weight_in[2], shift_in[2];

  __device__ void begin(int column) {
    bias_in = hydrac::load<8>(t.bias + column);
    for (int i = 0; i < 2; ++i) {
      weight_in[i] = hydrac::load<4>(t.weight + column + 4 * i);
      shift_in[i] = hydrac::load<4>(t.shift + column + 4 * i);
    }
  }
  __device__ Operands load(std::int64_t row, int column) const {
    Operands in;
    load_eight(in.residual, t.residual + row * n + column);
    return in;
  }
  template <int pass>
  __device__ void apply(std::int64_t row, int column, const Vector<T, 8>& values, const Operands& in,
                        Kept& kept, const float (&totals)[1], float (&partial)[1]) {
    if constexpr (pass == 0) {
      float out[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        out[j] = element(in.residual[j / 4], j % 4) + (element(values, j) + element(bias_in, j));
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
        out[j] = (kept.sum[j] - kept.mean) * rstd * weight_in[j / 4].at[j % 4] + shift_in[j / 4].at[j % 4];
      store_columns<8>(t.normed + row * n + column, out);
    }
  }
};

// c is the gradient of the above's normed: d_sum, and the sums over the rows of c xhat, c and d_sum.
template <class T, class R, int n>
struct LayernormBackwardAdd {
  static constexpr int sums = 3, passes = 2, reductions = 2;
  struct Operands {
    Vector<R, 4> x[2], d_residual[2];
    float mean, rstd;
  };
  struct Kept {};
  NormBackward<T, R> t;
  float* partials[sums];
  float sum[sums][8];
  Vector<float, 4> weight_in[2];

  __device__ void begin(int column) {
    for (int i = 0; i < 2; ++i) weight_in[i] = hydrac::load<4>(t.weight + column + 4 * i);
  }
  __device__ Operands load(std::int64_t row, int column) const {
    Operands in;
    load_eight(in.x, t.x + row * n + column);
    load_eight(in.d_residual, t.d_residual + row * n + column);
    in.mean = t.mean[row], in.rstd = t.rstd[row];
    return in;
  }
  template <int pass>
  __device__ void apply(std::int64_t row, int column, const Vector<T, 8>& values, const Operands& in, Kept&,
                        const float (&totals)[2], float (&partial)[2]) {
    float out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float xhat = (element(in.x[j / 4], j % 4) - in.mean) * in.rstd, d = element(values, j);
      const float g = d * weight_in[j / 4].at[j % 4];
      if constexpr (pass == 0) {
        partial[0] += g;
        partial[1] += g * xhat;
        sum[0][j] += d * xhat;
        sum[1][j] += d;
      } else {
        const float d_x = in.rstd * (g - totals[0] * (1.0f / n) - xhat * (totals[1] * (1.0f / n)));
        out[j] = element(in.d_residual[j / 4], j % 4) + round_to<R>(d_x);
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
