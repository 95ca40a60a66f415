// The queue of an emitted program's calls: a branch of the CUDA graph that is being captured.
#pragma once
#include <cstdint>
#include <optional>

#include "runtime/cuda/exchange/communicator.h"
#include "runtime/cuda/gemm/matmuls.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/stream.h"
#include "runtime/program/after_call.h"

namespace hydrac::runtime::cuda {

// A point of one branch that another one waits for. Marked again, it moves on.
class Mark {
 private:
  friend class Queue;
  std::optional<Event> event_;
};

struct MatmulOptions {
  const void* bias = nullptr;  // [n] of C's type; nullptr: none
  bool accumulate = false;     // adds to what C holds
  std::int64_t batch = 1;      // matmuls of matrices side by side: runtime/batch_stride.h
  // For 8-bit operands: the scales of their elements, and GemmProblem's fast_sums.
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
  bool fast_sums = false;
};

// A tensor of a collective of ranks (CudaStepProgram::run), in place
template <class T>
Elements elements(T* data, std::int64_t count) {
  return {data, data, count, element_type<T>()};
}
// or between two places, with `count` elements of a rank's part of a slot.
template <class T>
Elements elements(const T* from, T* to, std::int64_t count, std::int64_t slots = 1) {
  return {from, to, count, element_type<T>(), slots};
}

class Queue {
 public:
  enum class Branch { first, second };
  // `workspace`: device memory for the branch's matmuls, as large as GemmOptions::workspace_bytes.
  Queue(const Stream& stream, const Matmuls& matmuls, void* workspace, Branch branch = Branch::first)
      : stream_(stream), matmuls_(matmuls), workspace_(workspace), branch_(branch) {}

  abi::CUstream stream() const { return stream_.handle(); }
  const Stream& cuda_stream() const { return stream_; }

  void mark(Mark& mark) const;
  // Later work starts after the work before the mark; at once if nobody has marked yet.
  void wait(const Mark& mark) const;

  // Later work starts after everything that `other` has by now: a branch forks, and joins again, like this.
  void follow(const Queue& other) const;

  // Makes a tensor's elements zero.
  template <class T>
  void zero(T* tensor, std::int64_t elements) const {
    before_call(stream_.handle());
    fill_bytes(tensor, 0, elements * static_cast<std::int64_t>(sizeof(T)), stream_);
    after_call(stream_.handle());
  }

  // Between the GPU's memory and the host's.
  template <class T>
  void copy(T* to, const T* from, std::int64_t elements) const {
    before_call(stream_.handle());
    copy_anywhere(to, from, elements * static_cast<std::int64_t>(sizeof(T)), stream_);
    after_call(stream_.handle());
  }

  // C[m,n] = A[m,k] · B[n,k]ᵀ: a layer's outputs from its inputs and its weight.
  template <class A, class B, class C>
  void gemm_nt(C* c, const A* a, const B* b, std::int64_t m, std::int64_t n, std::int64_t k,
               MatmulOptions options = {}) const {
    run(matmul<A, B, C>(false, true, m, n, k, kind(options)), c, a, b, options);
  }
  // C[m,n] = A[m,k] · B[k,n]: the gradient of its inputs from that of its outputs.
  template <class AB, class C>
  void gemm_nn(C* c, const AB* a, const AB* b, std::int64_t m, std::int64_t n, std::int64_t k,
               MatmulOptions options = {}) const {
    run(matmul<AB, AB, C>(false, false, m, n, k, kind(options)), c, a, b, options);
  }
  // C[m,n] = A[k,m]ᵀ · B[k,n]: the gradient of its weight.
  template <class AB, class C>
  void gemm_tn(C* c, const AB* a, const AB* b, std::int64_t m, std::int64_t n, std::int64_t k,
               MatmulOptions options = {}) const {
    run(matmul<AB, AB, C>(true, false, m, n, k, kind(options)), c, a, b, options);
  }

 private:
  MatmulKind kind(const MatmulOptions& options) const {
    return {options.bias != nullptr, options.accumulate, branch_ == Branch::second, options.batch,
            options.fast_sums};
  }
  void run(const GemmProblem& problem, void* c, const void* a, const void* b,
           const MatmulOptions& options) const;

  const Stream& stream_;
  const Matmuls& matmuls_;
  void* workspace_;
  Branch branch_;
};

}  // namespace hydrac::runtime::cuda
