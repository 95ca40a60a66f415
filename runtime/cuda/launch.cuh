// What the launching functions of emitted kernels need of the CUDA runtime. Compiled by nvcc.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "runtime/error.h"

namespace hydrac::runtime::cuda {

// One-dimensional; `shared_bytes` is dynamic shared memory of a block.
struct KernelLaunch {
  std::int64_t blocks = 1;
  int threads = 1;  // of a block
  int shared_bytes = 0;
};

// Puts a kernel on a stream. RunError that names it when CUDA refuses; what fails while it runs is reported
// by a later synchronization.
template <class... Parameters, class... Arguments>
void launch_kernel(const char* name, void (*kernel)(Parameters...), const KernelLaunch& launch,
                   cudaStream_t stream, Arguments... arguments) {
  cudaError_t error = cudaSuccess;
  if (launch.shared_bytes > 48 * 1024)  // more than a block gets unasked
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes);
  if (error == cudaSuccess) {
    kernel<<<static_cast<unsigned>(launch.blocks), launch.threads, launch.shared_bytes, stream>>>(
        arguments...);
    error = cudaGetLastError();
  }
  if (error != cudaSuccess)
    throw RunError(std::string("kernel ") + name + " was not launched: " + cudaGetErrorString(error));
}

}  // namespace hydrac::runtime::cuda
