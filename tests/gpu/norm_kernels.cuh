// Norms as kernels of their own, as generated programs have them: what norm_matmul_bench.cu compares with.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/reduce.cuh"
#include "cuda/vector.cuh"
#include "device_array.cuh"
#include "matmul_device.cuh"
#include "norm_matmul_epilogues.cuh"

namespace hydrac::test {

template <class R, int n>
__global__ void __launch_bounds__(128)
    add_layernorm_kernel(const bf16* matmul, const NormForward<bf16, R> t) {
  wait_for_previous_kernel();
  launch_next_kernel();
  constexpr int kLanes = 32, kRows = 4, kVector = 8, kStores = 16 / sizeof(R);
  constexpr int kChunks = (n + kLanes * kVector - 1) / (kLanes * kVector);
  RowLanes<kLanes, kRows> lanes;
  const std::int64_t r = blockIdx.x * kRows + lanes.row;
  float row_sum = 0.0f, sum_rounded[kChunks][kVector];
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int c = (k * kLanes + lanes.lane) * kVector;
    if (c < n) {
      const auto bias_in = load_columns<kVector>(t.bias + c);
      const auto matmul_in = load_columns<kVector>(matmul + r * n + c);
      const auto residual_in = load_columns<kVector, kStores>(t.residual + r * n + c);
      float sum_out[kVector];
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        sum_out[j] = element(residual_in, j) + (element(matmul_in, j) + element(bias_in, j));
        sum_rounded[k][j] = round_to<R>(sum_out[j]);
        row_sum += sum_rounded[k][j];
      }
      store_columns<kStores>(t.sum + r * n + c, sum_out);
    }
  }
  lanes.sum(row_sum);
  const float row_mean = row_sum * (1.0f / n);
  float sum_of_squares = 0.0f;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    if ((k * kLanes + lanes.lane) * kVector < n) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const float centered = sum_rounded[k][j] - row_mean;
        sum_of_squares += centered * centered;
      }
    }
  }
  lanes.sum(sum_of_squares);
  if (lanes.lane == 0) t.mean[r] = row_mean;
  const float row_rstd = rsqrt(sum_of_squares * (1.0f / n) + kNormEpsilon);
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int c = (k * kLanes + lanes.lane) * kVector;
    if (c < n) {
      const auto weight_in = load_columns<kVector, 4>(t.weight + c);
      const auto shift_in = load_columns<kVector, 4>(t.shift + c);
      float out[kVector];
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        out[j] = (sum_rounded[k][j] - row_mean) * row_rstd * weight_in.at[j] + shift_in.at[j];
      store_columns<kVector>(t.normed + r * n + c, out);
    }
  }
  if (lanes.lane == 0) t.rstd[r] = row_rstd;
}

// A block's rows come through shared memory, one ahead of the one that is computed.
template <class R, int n, int kLanes, int kRows, int kBlocks>
__global__ void __launch_bounds__(kLanes* kRows)
    layernorm_backward_kernel(const bf16* d_normed, const NormBackward<bf16, R> t, float* workspace,
                              std::int64_t rows) {
  wait_for_previous_kernel();
  launch_next_kernel();
  constexpr int kThreads = kLanes * kRows, kVector = 4;
  constexpr int kChunks = (n + kLanes * kVector - 1) / (kLanes * kVector);
  RowLanes<kLanes, kRows> lanes;
  float weight_sum[kChunks][kVector] = {}, shift_sum[kChunks][kVector] = {}, bias_sum[kChunks][kVector] = {};
  const auto weight_in = load_row<kChunks, kVector>(t.weight, lanes, n);
  extern __shared__ __align__(16) unsigned char norm_memory[];
  auto* const x_ahead = reinterpret_cast<Vector<R, kVector>*>(norm_memory) + threadIdx.x;
  auto* const d_residual_ahead = x_ahead + kChunks * kThreads;
  auto* const d_normed_ahead =
      reinterpret_cast<Vector<bf16, kVector>*>(d_residual_ahead - threadIdx.x + kChunks * kThreads) +
      threadIdx.x;
  const auto fetch = [&](std::int64_t r) {
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const int c = (k * kLanes + lanes.lane) * kVector;
      if (c < n) {
        copy_columns<kVector>(x_ahead[k * kThreads], t.x + r * n + c);
        copy_columns<kVector>(d_normed_ahead[k * kThreads], d_normed + r * n + c);
        copy_columns<kVector>(d_residual_ahead[k * kThreads], t.d_residual + r * n + c);
      }
    }
  };
  const std::int64_t first = blockIdx.x * kRows + lanes.row;
  if (first < rows) fetch(first);
  for (std::int64_t r = first; r < rows; r += kBlocks * kRows) {
    wait_copies();
    const float row_rstd = t.rstd[r], row_mean = t.mean[r];
    float sum_g = 0.0f, sum_g_xhat = 0.0f;
    Vector<R, kVector> x_in[kChunks], d_residual_in[kChunks];
    Vector<bf16, kVector> d_normed_in[kChunks];
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      if ((k * kLanes + lanes.lane) * kVector < n) {
        x_in[k] = x_ahead[k * kThreads];
        d_normed_in[k] = d_normed_ahead[k * kThreads];
        d_residual_in[k] = d_residual_ahead[k * kThreads];
      }
    }
    if (r + kBlocks * kRows < rows) fetch(r + kBlocks * kRows);
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      if ((k * kLanes + lanes.lane) * kVector < n) {
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
          const float xhat = (element(x_in[k], j) - row_mean) * row_rstd, d = element(d_normed_in[k], j);
          const float g = d * weight_in[k].at[j];
          sum_g += g, sum_g_xhat += g * xhat;
          weight_sum[k][j] += d * xhat, shift_sum[k][j] += d;
        }
      }
    }
    lanes.sum(sum_g, sum_g_xhat);
    const float mean_g = sum_g * (1.0f / n), mean_g_xhat = sum_g_xhat * (1.0f / n);
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const int c = (k * kLanes + lanes.lane) * kVector;
      if (c < n) {
        float out[kVector];
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
          const float xhat = (element(x_in[k], j) - row_mean) * row_rstd;
          const float g = element(d_normed_in[k], j) * weight_in[k].at[j];
          out[j] = element(d_residual_in[k], j) + round_to<R>(row_rstd * (g - mean_g - xhat * mean_g_xhat));
          bias_sum[k][j] += round_to<R>(out[j]);
        }
        store_columns<kVector>(t.d_sum + r * n + c, out);
        if (t.d_sum_copy != nullptr) store_columns<kVector>(t.d_sum_copy + r * n + c, out);
      }
    }
  }
  add_rows(lanes, weight_sum, shift_sum, bias_sum);
  if (lanes.row == 0) {
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const int c = (k * kLanes + lanes.lane) * kVector;
      if (c < n) {
        store_columns<kVector>(workspace + blockIdx.x * 3 * n + c, weight_sum[k]);
        store_columns<kVector>(workspace + blockIdx.x * 3 * n + n + c, shift_sum[k]);
        store_columns<kVector>(workspace + blockIdx.x * 3 * n + 2 * n + c, bias_sum[k]);
      }
    }
  }
}

template <class... Parameters, class... Arguments>
void launch_norm(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, std::size_t shared_bytes,
                 cudaStream_t stream, const Arguments&... arguments) {
  const cuda::MatmulLaunch launch{blocks, static_cast<int>(threads), 1, 1, shared_bytes};
  allow_shared_memory(kernel, launch);
  launch_matmul(kernel, launch, stream, true, static_cast<Parameters>(arguments)...);
}

template <class R, int n>
void launch_add_layernorm(const bf16* matmul, const NormForward<bf16, R>& t, std::int64_t m,
                          cudaStream_t stream) {
  launch_norm(add_layernorm_kernel<R, n>, static_cast<unsigned>(m / 4), 128, 0, stream, matmul, t);
}

template <class R, int n>
void launch_layernorm_backward(const bf16* d_normed, const NormBackward<bf16, R>& t, float* workspace,
                               std::int64_t m, cudaStream_t stream) {
  constexpr int kLanes = 64, kRows = n > 256 ? 12 : 8, kBlocks = n > 256 ? 132 : 256;
  constexpr int kChunks = (n + kLanes * 4 - 1) / (kLanes * 4);
  launch_norm(layernorm_backward_kernel<R, n, kLanes, kRows, kBlocks>, kBlocks, kLanes * kRows,
              std::size_t{kChunks} * kLanes * kRows * 4 * (2 * sizeof(R) + 2), stream, d_normed, t, workspace,
              m);
}

}  // namespace hydrac::test
