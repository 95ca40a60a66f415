// Finds the fastest algorithm for one matmul by running those that cuBLASLt proposes.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/cuda/gemm/gemm.h"
#include "runtime/cuda/gemm/gemm_choices.h"
#include "runtime/cuda/gemm/gemm_descriptors.h"

namespace hydrac::runtime::cuda {

struct GemmSearch {
  abi::cublasLtHandle_t handle = nullptr;
  std::int64_t workspace_bytes = 0;
  std::int64_t l2_bytes = 0;
  int candidates = 0;
  double budget_ms = 0;
};

// Bytes of one set of operands, every one of them at a multiple of 256.
std::int64_t operand_bytes(const GemmProblem& problem);
// Sets of operands worth going round.
std::int64_t useful_operand_sets(const GemmProblem& problem, std::int64_t l2_bytes);

// Every algorithm that was measured completely, the chosen one first, the others by their time. `scratch`
// holds the workspace and at least one set of operands, and is overwritten. Empty if cuBLASLt has no
// algorithm for the matmul.
std::vector<GemmChoice> search_gemm(const GemmSearch& search, const GemmProblem& problem,
                                    GemmDescriptors& descriptors, const Stream& stream, DeviceRange scratch);

}  // namespace hydrac::runtime::cuda
