// A libcuda.so.1 for machines without one: the version and the outcome of cuInit that the environment asks
// for, and every other function there but failing.
#include <cstdlib>

#include "runtime/cuda/abi/driver.h"

namespace {

int number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : 0;
}

}  // namespace

using namespace hydrac::runtime::cuda::abi;

#define cuDriverGetVersion unused_version
#define cuInit unused_init
#define HYDRAC_FAIL(name, parameters)   \
  extern "C" CUresult name parameters { \
    return 999;                         \
  }
#pragma GCC diagnostic ignored "-Wunused-parameter"
HYDRAC_DRIVER_FUNCTIONS(HYDRAC_FAIL)
#undef cuDriverGetVersion
#undef cuInit

extern "C" CUresult cuDriverGetVersion(int* version) {
  *version = number_of("FAKE_CUDA_VERSION");
  return kCudaSuccess;
}

extern "C" CUresult cuInit(unsigned) {
  return number_of("FAKE_CUDA_INIT");
}
