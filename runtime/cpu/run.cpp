#include "runtime/cpu/run.h"

#include "runtime/program/laid_out_program.h"

namespace hydrac::runtime {

namespace {

Gemm matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b,
            MatmulOptions options) {
  Gemm gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.trans_a = transpose_a;
  gemm.trans_b = transpose_b;
  gemm.beta = options.accumulate ? 1.0f : 0.0f;
  gemm.batch = options.batch;
  return gemm;
}

}  // namespace

void Run::gemm_nt(float* c, const float* a, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
                  MatmulOptions options) const {
  blas_.gemm(matmul(m, n, k, false, true, options), a, b, c);
}

void Run::gemm_nn(float* c, const float* a, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
                  MatmulOptions options) const {
  blas_.gemm(matmul(m, n, k, false, false, options), a, b, c);
}

void Run::gemm_tn(float* c, const float* a, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
                  MatmulOptions options) const {
  blas_.gemm(matmul(m, n, k, true, false, options), a, b, c);
}

void Run::all_reduce(std::initializer_list<std::span<float>> tensors, RankGroup group) const {
  before_call();
  for (const std::span<float> tensor : tensors) program_->all_reduce(tensor, tensor, group);
  after_call();
}

void Run::sum_over_ranks(const float* from, float* to, std::int64_t count) const {
  before_call();
  const auto size = static_cast<std::size_t>(count);
  program_->all_reduce({from, size}, {to, size}, RankGroup::tensor);
  after_call();
}

void Run::reduce_scatter(std::initializer_list<SharedFloats> tensors, RankGroup group) const {
  before_call();
  for (const SharedFloats& tensor : tensors) program_->reduce_scatter(tensor, group);
  after_call();
}

void Run::own_part(std::initializer_list<SharedFloats> tensors, RankGroup group) const {
  before_call();
  for (const SharedFloats& tensor : tensors) program_->own_part(tensor, group);
  after_call();
}

void Run::all_gather(std::initializer_list<SharedFloats> tensors, RankGroup group) const {
  before_call();
  for (const SharedFloats& tensor : tensors) program_->all_gather(tensor, group);
  after_call();
}

void Run::to_owners(std::initializer_list<SharedFloats> tensors) const {
  before_call();
  for (const SharedFloats& tensor : tensors) program_->to_owners(tensor);
  after_call();
}

void Run::from_owners(std::initializer_list<SharedFloats> tensors) const {
  before_call();
  for (const SharedFloats& tensor : tensors) program_->from_owners(tensor);
  after_call();
}

}  // namespace hydrac::runtime
