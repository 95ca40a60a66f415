#include "oracle/aten/threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

// Debian's LibTorch calls whatever BLAS is installed; OpenBLAS has threads and choices that ATen does not
// steer.
template <class Function>
Function find_in_process(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Returns whether the variable was missing.
bool set_if_missing(const char* variable, const char* value) {
  if (std::getenv(variable)) return false;
  setenv(variable, value, 1);
  return true;
}

// OpenBLAS's name for kernels that this processor runs well; nullptr for a processor that is truly old.
const char* kernels_for_this_processor() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell" : nullptr;
}

}  // namespace

void use_threads(int threads) {
  at::set_num_threads(threads);
  if (const auto set_blas_threads = find_in_process<void (*)(int)>("openblas_set_num_threads"))
    set_blas_threads(threads);
}

std::string blas_kernels() {
  const auto name = find_in_process<char* (*)()>("openblas_get_corename");
  return name ? name() : "";
}

void restart_with_fast_environment(char** argv) {
  bool changed = set_if_missing("OMP_WAIT_POLICY", "PASSIVE");
  const char* kernels = kernels_for_this_processor();
  if (blas_kernels() == "Prescott" && kernels) changed |= set_if_missing("OPENBLAS_CORETYPE", kernels);
  if (!changed) return;
  execv("/proc/self/exe", argv);
  throw JobError(fmt::format("hydrac-oracle cannot start itself anew: {}", std::strerror(errno)));
}

}  // namespace hydrac::oracle
