// One product as cuBLASLt sees it. cuBLASLt is column-major, and a row-major matrix is its transpose read
// column by column; so D = op(A) op(B) is asked for as D^T = op(B)^T op(A)^T: cuBLASLt's first operand is our
// B, its m our n, and its "bias gradient of A" our bias_gradient_b.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "runtime/cuda/abi/cublaslt.h"
#include "runtime/cuda/gemm.h"

namespace hydrac::runtime::cuda {

// Rows and columns as a matrix is stored (row-major), and its distances. `ld` is never 0.
struct StoredMatrix {
  ElementType type;
  std::int64_t rows = 0, columns = 0, ld = 0, stride = 0;
  // From the first element to the last of the last product of the batch.
  std::int64_t bytes(std::int64_t batch) const;
  bool operator==(const StoredMatrix&) const = default;
};
StoredMatrix stored_a(const GemmProblem& problem);
StoredMatrix stored_b(const GemmProblem& problem);
StoredMatrix stored_c(const GemmProblem& problem);  // that of D when beta is 0
StoredMatrix stored_d(const GemmProblem& problem);

bool uses_bias(Epilogue epilogue);
bool uses_aux(Epilogue epilogue);
bool is_fp8(const GemmProblem& problem);
// Elements of `bias`.
std::int64_t bias_length(const GemmProblem& problem);
std::int64_t aux_ld(const GemmProblem& problem);

// Throws RunError when the sizes contradict each other.
void check_problem(const GemmProblem& problem);

// Throws RunError "CALL: CUBLAS_STATUS_NAME".
void check_blas(abi::cublasStatus_t status, const char* call);

// cuBLASLt's descriptors of one product. The pointers of bias, aux and scales are part of one of them:
// set_pointers() comes before each use.
class GemmDescriptors {
 public:
  explicit GemmDescriptors(const GemmProblem& problem);

  void set_pointers(const GemmArguments& arguments);

  // Up to `wanted` deterministic algorithms, those that cuBLASLt thinks best first; none when it cannot do
  // the product.
  std::vector<abi::cublasLtMatmulHeuristicResult_t> propose(abi::cublasLtHandle_t handle,
                                                            std::int64_t workspace_bytes, int wanted);
  // The same algorithm with each other value that one attribute of its configuration can have here.
  enum class Vary { tile, cluster, split_k, swizzle };
  std::vector<abi::cublasLtMatmulHeuristicResult_t> variants(abi::cublasLtHandle_t handle,
                                                             const abi::cublasLtMatmulAlgo_t& algorithm,
                                                             Vary what, std::int64_t workspace_bytes);
  // Whether `algorithm` can do this product on this GPU; *workspace_bytes is what it needs.
  bool accepts(abi::cublasLtHandle_t handle, const abi::cublasLtMatmulAlgo_t& algorithm,
               std::int64_t* workspace_bytes);
  // Queues the product.
  abi::cublasStatus_t run(abi::cublasLtHandle_t handle, const abi::cublasLtMatmulAlgo_t& algorithm,
                          const GemmArguments& arguments, const Stream& stream, void* workspace,
                          std::int64_t workspace_bytes);

 private:
  void set(int attribute, const void* value, std::size_t bytes);
  // Addresses that tell cuBLASLt how the real ones will be aligned.
  void set_stand_in_pointers();

  GemmProblem problem_;
  struct Deleter {
    void operator()(abi::cublasLtMatmulDesc_t desc) const;
    void operator()(abi::cublasLtMatrixLayout_t layout) const;
  };
  using Layout = std::unique_ptr<std::remove_pointer_t<abi::cublasLtMatrixLayout_t>, Deleter>;
  static Layout layout_of(const StoredMatrix& matrix, std::int64_t batch);
  std::unique_ptr<std::remove_pointer_t<abi::cublasLtMatmulDesc_t>, Deleter> desc_;
  Layout a_, b_, c_, d_;  // of our A and B
};

}  // namespace hydrac::runtime::cuda
