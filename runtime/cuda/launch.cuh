// CUDA runtime helpers for the launching functions of emitted kernels. Compiled by nvcc.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/cuda/launch_hooks.h"

namespace hydrac::runtime::cuda {

// One-dimensional; `shared_bytes` is dynamic shared memory of a block.
struct KernelLaunch {
  std::int64_t blocks = 1;
  int threads = 1;  // of a block
  int shared_bytes = 0;
  bool overlaps_previous = false;  // it waits itself for the kernels before it, if follows_kernels()
};

// Puts a kernel on a stream. RunError that names it when CUDA refuses; what fails while it runs is reported
// by a later synchronization.
template <class... Parameters>
void launch_kernel(const char* name, void (*kernel)(Parameters...), const KernelLaunch& launch,
                   cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
  const bool overlaps = before_launch(stream, launch.overlaps_previous);
  const auto code = reinterpret_cast<const void*>(kernel);
  cudaError_t error = cudaSuccess;
  // With its static shared memory a block may need more than the 48 KiB that it gets unasked.
  if (launch.shared_bytes > 0)
    error = cudaFuncSetAttribute(code, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes);
  if (error == cudaSuccess) {
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim.x = static_cast<unsigned>(launch.blocks);
    config.blockDim.x = static_cast<unsigned>(launch.threads);
    config.dynamicSmemBytes = static_cast<std::size_t>(launch.shared_bytes);
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = overlaps ? 1 : 0;
    void* pointers[] = {&arguments...};
    error = cudaLaunchKernelExC(&config, code, pointers);
  }
  after_launch(name, error == cudaSuccess ? nullptr : cudaGetErrorString(error), stream);
}

// The same for a kernel that begins with wait_for_previous_kernel(): in a graph it may be launched while the
// kernel before it still runs.
template <class... Parameters>
void launch_behind_kernel(const char* name, void (*kernel)(Parameters...), KernelLaunch launch,
                          cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
  launch.overlaps_previous = true;
  launch_kernel(name, kernel, launch, stream, arguments...);
}

}  // namespace hydrac::runtime::cuda
