// One matmul as cuBLASLt sees it. cuBLASLt is column-major, and a row-major matrix is its transpose in
// column-major order. So D = op(A) op(B) is requested as D^T = op(B)^T op(A)^T: cuBLASLt's first operand is
// our B, and its m our n.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "runtime/cuda/abi/cublaslt.h"
#include "runtime/cuda/gemm/gemm.h"

namespace hydrac::runtime::cuda {

constexpr std::int64_t kOperandAlignment = 16;  // bytes, of every address

// Rows and columns as a matrix is stored: row-major, dense.
struct StoredMatrix {
  ElementType type;
  std::int64_t rows = 0, columns = 0;
  std::int64_t batch = 1;  // matrices
  std::int64_t bytes() const;
  bool operator==(const StoredMatrix&) const = default;
};
StoredMatrix stored_a(const GemmProblem& problem);
StoredMatrix stored_b(const GemmProblem& problem);
StoredMatrix stored_d(const GemmProblem& problem);

// How many of the GPU's multiprocessors a matmul may take; 0: cuBLASLt's choice. Its kernels fill a
// multiprocessor, so one that takes all of them delays the kernels that should overlap with it.
int multiprocessors(const GemmProblem& problem, int sms);

// Throws RunError when a size is no size.
void check_problem(const GemmProblem& problem);

// Throws RunError "CALL: CUBLAS_STATUS_NAME".
void check_blas(abi::cublasStatus_t status, const char* call);

// cuBLASLt's descriptors of one matmul. One of them contains the addresses of bias and scales, so
// set_pointers() comes before each use.
class GemmDescriptors {
 public:
  // `sms`: multiprocessors of the GPU.
  GemmDescriptors(const GemmProblem& problem, int sms);

  // Up to `wanted` deterministic algorithms in the order of cuBLASLt's heuristics; none if it cannot do the
  // matmul.
  std::vector<abi::cublasLtMatmulHeuristicResult_t> propose(abi::cublasLtHandle_t handle,
                                                            std::int64_t workspace_bytes, int wanted);
  // The same algorithm with each other value that one attribute of its configuration can have here.
  enum class Vary { tile, cluster, split_k, swizzle };
  std::vector<abi::cublasLtMatmulHeuristicResult_t> variants(abi::cublasLtHandle_t handle,
                                                             const abi::cublasLtMatmulAlgo_t& algorithm,
                                                             Vary what, std::int64_t workspace_bytes);
  // True if `algorithm` can do this matmul on this GPU; *workspace_bytes is what it needs.
  bool accepts(abi::cublasLtHandle_t handle, const abi::cublasLtMatmulAlgo_t& algorithm,
               std::int64_t* workspace_bytes);
  // Queues the matmul.
  abi::cublasStatus_t run(abi::cublasLtHandle_t handle, const abi::cublasLtMatmulAlgo_t& algorithm,
                          const GemmArguments& arguments, const Stream& stream, void* workspace,
                          std::int64_t workspace_bytes);

 private:
  void set(int attribute, const void* value, std::size_t bytes);
  void set_pointers(const GemmArguments& arguments);
  // Addresses that tell cuBLASLt how the real ones will be aligned.
  void set_stand_in_pointers();

  GemmProblem problem_;
  struct Deleter {
    void operator()(abi::cublasLtMatmulDesc_t desc) const;
    void operator()(abi::cublasLtMatrixLayout_t layout) const;
  };
  using Layout = std::unique_ptr<std::remove_pointer_t<abi::cublasLtMatrixLayout_t>, Deleter>;
  static Layout layout_of(const StoredMatrix& matrix);
  std::unique_ptr<std::remove_pointer_t<abi::cublasLtMatmulDesc_t>, Deleter> desc_;
  Layout a_, b_, d_;  // of our A, B and D
};

}  // namespace hydrac::runtime::cuda
