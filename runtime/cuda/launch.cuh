// What the launching functions of emitted kernels need of the CUDA runtime. Compiled by nvcc.
#pragma once
#include <cuda_runtime_api.h>

#include <string>

#include "runtime/error.h"
#include "runtime/program/after_call.h"

namespace hydrac::runtime::cuda {

// To be called right after a launch. RunError that names the kernel when CUDA refused it; what fails while a
// kernel runs is reported by a later synchronization.
inline void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw RunError(std::string("kernel ") + kernel + " was not launched: " + cudaGetErrorString(error));
  after_call();
}

// Blocks get 48 KiB of shared memory unless a kernel says that it wants more.
template <class... Arguments>
void allow_shared_memory(void (*kernel)(Arguments...), int bytes) {
  const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess)
    throw RunError("a kernel cannot have " + std::to_string(bytes) +
                   " bytes of shared memory a block: " + cudaGetErrorString(error));
}

}  // namespace hydrac::runtime::cuda
