#include "targets/cuda/matmuls.h"

#include <stdexcept>

#include "program/for_each_matmul.h"

namespace hydrac::targets {

namespace cuda = runtime::cuda;

cuda::ElementType element_type(ir::DType dtype) {
#define HYDRAC_FLOAT(name, bytes, type, stored, blas) \
  if (dtype == ir::DType::name) return cuda::ElementType::name;
#include "runtime/base/dtypes.def"
  throw std::logic_error("no library computes with integers");
}

namespace {

cuda::GemmProblem problem_of(const program::GemmShape& shape, bool tf32) {
  cuda::GemmProblem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  problem.transpose_a = shape.transpose_a;
  problem.transpose_b = shape.transpose_b;
  problem.a = element_type(shape.a);
  problem.b = element_type(shape.b);
  problem.result = element_type(shape.c);
  problem.tf32 = tf32;
  problem.accumulate = shape.accumulate;
  problem.bias = shape.bias;
  problem.beside = shape.beside;
  problem.batch = shape.batch;
  problem.fast_sums = shape.fast_sums;
  return problem;
}

}  // namespace

Matmuls::Matmuls(const program::Program& program, bool tf32, cuda::GemmLibrary& gemms,
                 const cuda::Stream& stream, cuda::DeviceRange scratch)
    : gemms_(gemms) {
  program::for_each_matmul(
      program, program::Matmuls::all, [&](const program::Call&, const program::GemmShape& shape) {
        const cuda::GemmProblem problem = problem_of(shape, tf32);
        const bool fits = gemms.remembers(problem) || gemms.scratch_bytes(problem) <= scratch.bytes;
        plans_.emplace(shape, gemms.plan(problem, stream, fits ? scratch : cuda::DeviceRange{}));
      });
}

void Matmuls::exchange(const std::string& problem, const std::string& words) {
  for (auto& [shape, gemm] : plans_) {
    if (gemm.problem().text() == problem) gemm = gemms_.plan_as(gemm.problem(), words);
  }
}

}  // namespace hydrac::targets
