// Matmuls on the CPU, through a library opened at run time: oneDNN or OpenBLAS, whichever is faster
// here.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cache/recorded_choices.h"

namespace hydrac::runtime {

// One matmul C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C, float32, row-major. op(X) is X, or its
// transpose where trans_x is set. ldx is the distance in floats between two rows of X as it lies in memory
// (A is [m,k], or [k,m] when transposed); 0 means dense. With beta = 0, C is written and never read.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  float alpha = 1.0f, beta = 0.0f;
  std::int64_t batch = 1;  // matmuls of dense matrices side by side: runtime/batch_stride.h

  double flop() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  }
};

// Groups of rows of a matmul, each from offsets[g] to offsets[g + 1], as int32 [count + 1]. Rows of A have
// the matrix of their group among those of B; where A is transposed, a group's rows of A and B give a matrix
// of C. The matrices lie one below the other. Rows behind the last offset are neither read nor written.
struct Groups {
  std::int64_t count = 0;  // 0: one matmul of all rows
  const std::int32_t* offsets = nullptr;
  bool row_by_row = false;  // a matmul for each row of A: its bits do not depend on the other rows
};

struct BlasOptions {
  // "auto", "onednn" or "openblas".
  std::string preference = "auto";
  // Matmuls that "auto" measures: those that the program will run. Empty: three common ones.
  std::vector<Gemm> shapes;
  // The library that "auto" takes instead of measuring, if it can: the one that a checkpoint or a lock file
  // records.
  RecordedChoices recorded;
  // The sealed file in which "auto" remembers its choice, one line per (libraries, CPU, threads, shapes).
  // Empty: it measures each time.
  std::string cache_file;
  // Names or paths for dlopen, in this order.
  std::vector<std::string> onednn_files = {"libdnnl.so.3", "libdnnl.so.2"};
  std::vector<std::string> openblas_files = {"libopenblas.so.0"};
};

// An opened library. Movable; the library stays loaded until the process ends. A matmul uses as many threads
// as OpenMP would (omp_get_max_threads()), or one when called inside a parallel region. The same matmul on
// the same number of threads gives the same bits. Not to be called from two plain std::threads at once.
class Blas {
 public:
  // Throws InputError when no wanted library is installed (the message names the packages), or when the
  // preference is none of the three words.
  static Blas open(const BlasOptions& options = {});

  Blas(Blas&&) noexcept;
  Blas& operator=(Blas&&) noexcept;
  ~Blas();

  // Runs one matmul on memory that the caller owns; a, b and c must not overlap. Throws RunError when a size
  // is not positive, when a row is longer than its stride, or when the library refuses.
  void gemm(const Gemm& matmul, const float* a, const float* b, float* c, Groups groups = {}) const;

  // "oneDNN 2.6.3", "OpenBLAS 0.3.21 (SkylakeX kernels, pthreads)".
  const std::string& name() const;

  // Everything that decides how matmuls are rounded: section "blas" with library ("onednn"), version (its
  // name()), threads, and the processor's model.
  RecordedChoices choices() const;

  // GFLOP/s of a square matmul with n = 1024 on OpenMP's threads: the best of some runs, about 0.1 s in all.
  // It is the peak that reports compare with; measured anew at each call.
  double peak_gflops() const;

  // Notes for the user: how "auto" chose, a library that is missing, an environment variable that slows it.
  const std::vector<std::string>& notes() const;

 private:
  void run(const Gemm& matmul, const float* a, const float* b, float* c) const;
  void run_groups(const Gemm& matmul, const float* a, const float* b, float* c, Groups groups) const;
  struct Impl;
  explicit Blas(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hydrac::runtime
