// What the launching functions of emitted kernels need of the CUDA runtime. Compiled by nvcc.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/cuda/stream.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {

// To be called right after a launch. RunError that names the kernel when CUDA refused it; what fails while a
// kernel runs is reported by a later synchronization.
inline void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw RunError(std::string("kernel ") + kernel + " was not launched: " + cudaGetErrorString(error));
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

// kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...) for a kernel that begins with
// wait_for_previous_kernel(): in a graph it may be launched while the kernel before it still runs.
template <class... Parameters>
void launch_behind_kernel(void (*kernel)(Parameters...), std::int64_t blocks, int threads, int shared_bytes,
                          cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim.x = static_cast<unsigned>(blocks);
  config.blockDim.x = static_cast<unsigned>(threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = follows_one_kernel(stream) ? 1 : 0;
  void* pointers[] = {&arguments...};
  cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel),
                      pointers);  // check_launch() has its error
}

}  // namespace hydrac::runtime::cuda
