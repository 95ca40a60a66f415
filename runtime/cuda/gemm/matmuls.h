// The matmuls of an emitted program for a GPU: each is planned before the first step, under its shape.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "cuda/types.cuh"
#include "runtime/cuda/gemm/gemm.h"

namespace hydrac::runtime::cuda {

// Properties of a matmul besides its shape.
struct MatmulKind {
  bool bias = false;         // adds a row of C's type to each row of C
  bool accumulate = false;   // adds to what C holds
  bool side_stream = false;  // runs there, while other kernels run
  std::int64_t batch = 1;    // matmuls of matrices side by side
  bool fast_sums = false;    // of 8-bit operands: see GemmProblem
};

template <class T>
constexpr ElementType element_type();
template <>
constexpr ElementType element_type<float>() {
  return ElementType::f32;
}
template <>
constexpr ElementType element_type<bf16>() {
  return ElementType::bf16;
}
template <>
constexpr ElementType element_type<f16>() {
  return ElementType::f16;
}
template <>
constexpr ElementType element_type<f8e4m3>() {
  return ElementType::f8e4m3;
}
template <>
constexpr ElementType element_type<f8e5m2>() {
  return ElementType::f8e5m2;
}

// C[m,n] = op(A)[m,k] · op(B)[k,n], row-major and dense, summed in float32.
template <class A, class B, class C>
GemmProblem matmul(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                   MatmulKind kind) {
  GemmProblem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.transpose_a = transpose_a;
  problem.transpose_b = transpose_b;
  problem.a = element_type<A>();
  problem.b = element_type<B>();
  problem.result = element_type<C>();
  problem.accumulate = kind.accumulate;
  problem.bias = kind.bias;
  problem.beside = kind.side_stream;
  problem.batch = kind.batch;
  problem.fast_sums = kind.fast_sums;
  return problem;
}

class Matmuls {
 public:
  // `tf32`: float32 operands are rounded to tf32. `scratch`: device memory that planning may overwrite, and
  // nobody needs until it is done.
  Matmuls(const Context& context, const GemmOptions& options, bool tf32, DeviceRange scratch)
      : library_(context, options), tf32_(tf32), scratch_(scratch) {}

  // Chooses the matmul's algorithm, or takes the remembered one; each shape once.
  template <class A, class C, class B = A>
  void plan_nt(std::int64_t m, std::int64_t n, std::int64_t k, MatmulKind kind = {}) {
    plan(matmul<A, B, C>(false, true, m, n, k, kind));
  }
  template <class AB, class C>
  void plan_nn(std::int64_t m, std::int64_t n, std::int64_t k, MatmulKind kind = {}) {
    plan(matmul<AB, AB, C>(false, false, m, n, k, kind));
  }
  template <class AB, class C>
  void plan_tn(std::int64_t m, std::int64_t n, std::int64_t k, MatmulKind kind = {}) {
    plan(matmul<AB, AB, C>(true, false, m, n, k, kind));
  }

  // Queues a planned matmul; std::logic_error for another one. `workspace` as GemmLibrary::run() wants it.
  void run(const GemmProblem& problem, const GemmArguments& arguments, const Stream& stream,
           void* workspace) const;

  const GemmLibrary& library() const { return library_; }

 private:
  void plan(GemmProblem problem);

  GemmLibrary library_;
  bool tf32_;
  DeviceRange scratch_;
  Stream stream_;
  std::map<std::string, Gemm> planned_;  // by GemmProblem::text()
};

}  // namespace hydrac::runtime::cuda
