// cuBLASLt's matmuls for the benchmarks, and their clock.
#pragma once
#include <cublasLt.h>

#include <functional>

#include "cuda/matmul/geometry.h"
#include "device_array.cuh"

namespace hydrac::test {

inline void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: cuBLASLt status %d\n", what, static_cast<int>(status));
  std::exit(3);
}

inline float elapsed_ms(int times, const std::function<void()>& run) {
  static const auto event = [] {
    cudaEvent_t created;
    check(cudaEventCreate(&created), "cudaEventCreate");
    return created;
  };
  static const cudaEvent_t start = event(), stop = event();
  check(cudaEventRecord(start), "cudaEventRecord");
  for (int i = 0; i < times; ++i) run();
  check(cudaEventRecord(stop), "cudaEventRecord");
  check(cudaEventSynchronize(stop), "cudaEventSynchronize");
  float ms;
  check(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
  return ms / static_cast<float>(times);
}

// Leaves in `algorithm` the fastest of those that cuBLASLt proposes for left . right = result, by `run`,
// which computes it with `algorithm`.
inline void find_fastest(cublasLtMatmulAlgo_t& algorithm, cublasLtHandle_t handle,
                         cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t left,
                         cublasLtMatrixLayout_t right, cublasLtMatrixLayout_t result,
                         std::size_t workspace_bytes, const std::function<void()>& run) {
  constexpr int kAsked = 12;
  cublasLtMatmulPreference_t preference;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof workspace_bytes),
        "cublasLtMatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t found[kAsked];
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, matmul, left, right, result, result, preference, kAsked, found,
                                       &count),
        "cublasLtMatmulAlgoGetHeuristic");
  cublasLtMatmulAlgo_t best{};
  float best_ms = 1e9f;
  for (int i = 0; i < count; ++i) {
    algorithm = found[i].algo;
    run();
    const float ms = elapsed_ms(6, run);
    if (ms < best_ms) best = algorithm, best_ms = ms;
  }
  algorithm = best;
}

// c = a . b by the fastest of cuBLASLt's algorithms for bf16. Its matrices are column-major: ours transposed.
class LibraryMatmul {
 public:
  LibraryMatmul(const cuda::MatmulProblem& p, const bf16* a, const bf16* b, bf16* c)
      : a_(a), b_(b), c_(c), workspace_(kWorkspaceBytes) {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    check(cublasLtMatmulDescCreate(&matmul_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const cublasOperation_t operation = p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(matmul_, CUBLASLT_MATMUL_DESC_TRANSA, &operation, sizeof operation),
          "cublasLtMatmulDescSetAttribute");
    const std::int64_t b_row = p.b_transposed ? p.k : p.n;
    layout(b_layout_, b_row, p.b_transposed ? p.n : p.k);
    layout(a_layout_, p.k, p.m);
    layout(c_layout_, p.n, p.m);
    find_fastest(algorithm_, handle_, matmul_, b_layout_, a_layout_, c_layout_, kWorkspaceBytes,
                 [this] { (*this)(); });
  }

  void operator()(cudaStream_t stream = nullptr) const {
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle_, matmul_, &one, b_, b_layout_, a_, a_layout_, &zero, c_, c_layout_, c_,
                         c_layout_, &algorithm_, workspace_.get(), kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

 private:
  static constexpr std::size_t kWorkspaceBytes = 64 << 20;

  static void layout(cublasLtMatrixLayout_t& to, std::int64_t rows, std::int64_t columns) {
    check(cublasLtMatrixLayoutCreate(&to, CUDA_R_16BF, rows, columns, rows), "cublasLtMatrixLayoutCreate");
  }

  const bf16 *a_, *b_;
  bf16* c_;
  mutable DeviceArray<unsigned char> workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t matmul_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, c_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

// Random numbers on the device: drawn once and then doubled, a prime number of them.
inline DeviceArray<bf16> random_array(std::size_t size, std::uint64_t seed) {
  const auto drawn = random_values<bf16>(std::min<std::size_t>(size, 999983), seed);
  DeviceArray<bf16> array(size);
  check(cudaMemcpy(array.get(), drawn.data(), drawn.size() * sizeof(bf16), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  for (std::size_t done = drawn.size(); done < size; done *= 2) {
    check(cudaMemcpy(array.get() + done, array.get(), std::min(done, size - done) * sizeof(bf16),
                     cudaMemcpyDeviceToDevice),
          "cudaMemcpy");
  }
  return array;
}

}  // namespace hydrac::test
