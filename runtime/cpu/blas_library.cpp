#include "runtime/cpu/blas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <omp.h>

#include <cstdlib>
#include <limits>
#include <mutex>
#include <string_view>

namespace hydrac::runtime {
namespace {

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::vector<std::string> warnings_for(std::initializer_list<const char*> variables) {
  std::vector<std::string> warnings;
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable)) {
      warnings.push_back(
          fmt::format("{}={} in the environment limits the instructions of matmuls, which may halve their "
                      "speed: unset it if you did not set it on purpose",
                      variable, value));
    }
  }
  return warnings;
}

// The head of oneDNN's dnnl_version_t, the same in versions 1 to 3.
struct OnednnVersion {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime;
};
constexpr unsigned kOnednnOpenmp = 2;

// oneDNN's C interface is row-major and runs on OpenMP's threads: one, inside a parallel region.
class Onednn : public BlasLibrary {
 public:
  using Sgemm = int(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*, std::int64_t,
                    const float*, std::int64_t, float, float*, std::int64_t);

  Onednn(Sgemm* sgemm, const OnednnVersion& version)
      : sgemm_(sgemm), name_(fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch)) {}

  int gemm(const Gemm& p, const float* a, const float* b, float* c) override {
    return sgemm_(p.trans_a ? 'T' : 'N', p.trans_b ? 'T' : 'N', p.m, p.n, p.k, p.alpha, a, p.lda, b, p.ldb,
                  p.beta, c, p.ldc);
  }
  std::string word() const override { return "onednn"; }
  const std::string& name() const override { return name_; }
  std::vector<std::string> warnings() const override {
    return warnings_for({"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"});
  }

 private:
  Sgemm* sgemm_;
  std::string name_;
};

// OpenBLAS is built with its own threads (pthreads), with OpenMP, or without threads: openblas_get_parallel()
// says which.
class Openblas : public BlasLibrary {
 public:
  using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                     int);
  using SetThreads = void(int);
  enum Threads { kNone = 0, kPthreads = 1, kOpenmp = 2 };

  Openblas(Sgemm* sgemm, SetThreads* set_threads, Threads threads, std::string_view version,
           std::string_view core)
      : sgemm_(sgemm), set_threads_(set_threads), threads_(threads), core_(core) {
    constexpr const char* names[] = {"one thread only", "pthreads", "OpenMP"};
    name_ = fmt::format("OpenBLAS {} ({} kernels, {})", version, core, names[threads]);
  }

  int gemm(const Gemm& p, const float* a, const float* b, float* c) override {
    for (std::int64_t size : {p.m, p.n, p.k, p.lda, p.ldb, p.ldc}) {
      if (size > std::numeric_limits<int>::max()) return -1;
    }
    follow_openmp();
    constexpr int row_major = 101, plain = 111, transposed = 112;
    sgemm_(row_major, p.trans_a ? transposed : plain, p.trans_b ? transposed : plain, static_cast<int>(p.m),
           static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, a, static_cast<int>(p.lda), b,
           static_cast<int>(p.ldb), p.beta, c, static_cast<int>(p.ldc));
    return 0;
  }
  std::string word() const override { return "openblas"; }
  const std::string& name() const override { return name_; }
  std::vector<std::string> warnings() const override {
    std::vector<std::string> warnings = warnings_for({"OPENBLAS_CORETYPE"});
#if defined(__x86_64__)
    // A processor newer than the library gets the kernels of 2004, a tenth of what it can do.
    if (warnings.empty() && core_ == "Prescott" && __builtin_cpu_supports("avx2")) {
      const char* core = __builtin_cpu_supports("avx512f") ? "SkylakeX" : "Haswell";
      warnings.push_back(fmt::format(
          "{} does not know this processor and falls back to its slowest kernels: install oneDNN or a newer "
          "OpenBLAS, or set OPENBLAS_CORETYPE={}",
          name_, core));
    }
#endif
    return warnings;
  }

 private:
  // The pthreads build does not know OpenMP, so it is told how many threads to use. Inside a parallel region
  // all callers want one thread: the first one sets it, and nobody changes it while matmuls run.
  void follow_openmp() {
    if (threads_ != kPthreads) return;
    const int wanted = omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (wanted == current_) return;
    set_threads_(wanted);
    current_ = wanted;
  }

  Sgemm* sgemm_;
  SetThreads* set_threads_;
  Threads threads_;
  std::string core_;
  std::string name_;
  std::mutex mutex_;
  int current_ = 0;
};

}  // namespace

std::unique_ptr<BlasLibrary> open_onednn(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    auto* sgemm = find<Onednn::Sgemm>(library, "dnnl_sgemm");
    auto* version = find<const OnednnVersion*()>(library, "dnnl_version");
    // A build on another threading runtime would not follow OpenMP's number of threads.
    if (sgemm != nullptr && version != nullptr && version()->cpu_runtime == kOnednnOpenmp) {
      return std::make_unique<Onednn>(sgemm, *version());
    }
    dlclose(library);
  }
  return nullptr;
}

std::unique_ptr<BlasLibrary> open_openblas(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    auto* sgemm = find<Openblas::Sgemm>(library, "cblas_sgemm");
    auto* set_threads = find<Openblas::SetThreads>(library, "openblas_set_num_threads");
    auto* get_parallel = find<int()>(library, "openblas_get_parallel");
    auto* get_config = find<char*()>(library, "openblas_get_config");
    auto* get_core = find<char*()>(library, "openblas_get_corename");
    if (sgemm != nullptr && set_threads != nullptr && get_parallel != nullptr && get_config != nullptr &&
        get_core != nullptr) {
      // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the second word is the version.
      std::string_view version = get_config();
      version.remove_prefix(std::min(version.size(), version.find(' ') + 1));
      version = version.substr(0, version.find(' '));
      const int parallel = get_parallel();
      const auto threads = parallel == 1   ? Openblas::kPthreads
                           : parallel == 2 ? Openblas::kOpenmp
                                           : Openblas::kNone;
      return std::make_unique<Openblas>(sgemm, set_threads, threads, version, get_core());
    }
    dlclose(library);
  }
  return nullptr;
}

}  // namespace hydrac::runtime
