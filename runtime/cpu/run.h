// The calls of an emitted program for the cpu: its kernels, matmuls named by which operand is transposed, and
// sums over ranks.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>

#include "runtime/cpu/gemm.h"
#include "runtime/program/after_call.h"
#include "runtime/program/laid_out_program.h"

namespace hydrac::runtime {

struct MatmulOptions {
  bool accumulate = false;  // adds to what C holds
  std::int64_t batch = 1;   // matmuls of matrices side by side: runtime/batch_stride.h
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

  // Each of a rank's tensors becomes the sum of those of all ranks of its group, 0 + the first one's + ...:
  // the same bits everywhere.
  void all_reduce(std::initializer_list<std::span<float>> tensors, RankGroup group = RankGroup::data) const;
  // Likewise of ranks that share layers, and the sum is elsewhere.
  void sum_over_ranks(const float* from, float* to, std::int64_t count) const;
  // Of tensors that ranks have parts of: `part` becomes the rank's part of the sum of all ranks' `whole`, or
  // of its own one; or `whole` the parts of all ranks.
  void reduce_scatter(std::initializer_list<SharedFloats> tensors, RankGroup group = RankGroup::data) const;
  void own_part(std::initializer_list<SharedFloats> tensors, RankGroup group = RankGroup::data) const;
  void all_gather(std::initializer_list<SharedFloats> tensors, RankGroup group = RankGroup::data) const;
  // Of tensors with slots: `whole` becomes the slots that this rank owns, of each of which all ranks have
  // parts; or `part` the rank's parts of all slots.
  void to_owners(std::initializer_list<SharedFloats> tensors) const;
  void from_owners(std::initializer_list<SharedFloats> tensors) const;

  const Blas& blas() const { return blas_; }

 private:
  Blas blas_;
  const LaidOutProgram* program_ = nullptr;
};

}  // namespace hydrac::runtime
