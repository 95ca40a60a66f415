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
  blas_.gemm(matmul(m, n, k, false, true, options), a, b, c, options.groups);
}

void Run::gemm_nn(float* c, const float* a, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
                  MatmulOptions options) const {
  blas_.gemm(matmul(m, n, k, false, false, options), a, b, c, options.groups);
}

void Run::gemm_tn(float* c, const float* a, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
                  MatmulOptions options) const {
  blas_.gemm(matmul(m, n, k, true, false, options), a, b, c, options.groups);
}

void Run::collective(const Collective& collective, std::initializer_list<SharedFloats> tensors) const {
  before_call();
  program_->run(collective, {tensors.begin(), tensors.size()});
  after_call();
}

}  // namespace hydrac::runtime
