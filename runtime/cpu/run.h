// The calls of an emitted program for the cpu: its kernels, matmuls named by their transposed operand, and
// collectives.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "runtime/cpu/gemm.h"
#include "runtime/program/after_call.h"
#include "runtime/program/laid_out_program.h"

namespace hydrac::runtime {

struct MatmulOptions {
  bool accumulate = false;  // adds to what C holds
  std::int64_t batch = 1;   // matmuls of matrices side by side: runtime/batch_stride.h
  Groups groups = {};       // matmuls of groups of rows
};

class Run {
 public:
  explicit Run(Blas blas) : blas_(std::move(blas)) {}
  // For programs of several ranks.
  Run(Blas blas, const LaidOutProgram& program) : blas_(std::move(blas)), program_(&program) {}

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), Arguments... arguments) const {
    before_call();
    kernel(arguments...);
    after_call();
  }

  // Matmuls are of float32, row-major and dense. C must not overlap A or B.
  // C[m,n] = A[m,k] · B[n,k]ᵀ: a layer's outputs from its inputs and its weight.
  void gemm_nt(float* c, const float* a, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
               MatmulOptions options = {}) const;
  // C[m,n] = A[m,k] · B[k,n]: the gradient of its inputs from that of its outputs.
  void gemm_nn(float* c, const float* a, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
               MatmulOptions options = {}) const;
  // C[m,n] = A[k,m]ᵀ · B[k,n]: the gradient of its weight.
  void gemm_tn(float* c, const float* a, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
               MatmulOptions options = {}) const;

  // Carries out a collective, tensor by tensor. Sums are 0 + the first rank's + ...: the same bits
  // everywhere.
  void collective(const Collective& collective, std::initializer_list<SharedFloats> tensors) const;

  const Blas& blas() const { return blas_; }

 private:
  Blas blas_;
  const LaidOutProgram* program_ = nullptr;
};

}  // namespace hydrac::runtime
