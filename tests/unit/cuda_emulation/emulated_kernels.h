// CUDA kernels, compiled from their text by the compiler that built the tests, and launched on the CPU.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "block_scheduler.h"

namespace hydrac::emulation {

class EmulatedKernels {
 public:
  // `source` may include the templates ("cuda/types.cuh", "hydrac/math.h"). `kernels` are the `extern "C"
  // __global__` functions of it that will be launched. Throws EmulationError with the compiler's messages and
  // the source when it does not compile.
  EmulatedKernels(const std::string& source, const std::vector<std::string>& kernels);
  ~EmulatedKernels();
  EmulatedKernels(const EmulatedKernels&) = delete;
  EmulatedKernels& operator=(const EmulatedKernels&) = delete;

  // As cuLaunchKernel: the address of each argument. Throws EmulationError, e.g.
  //   sum, block (3,0,0): thread (0,0,0) waits at __syncthreads (kernels:12), thread (1,0,0) has returned
  // Two launches must not run at a time.
  void launch(const std::string& kernel, const Geometry& geometry, std::span<void* const> arguments,
              Order order = Order::ascending);

  // launch(), and once more in descending order from the same state of `memory`, the buffers that the kernel
  // may write. Throws EmulationError if their bytes then differ: threads race.
  void launch_both_orders(const std::string& kernel, const Geometry& geometry,
                          std::span<void* const> arguments, std::span<const std::span<std::byte>> memory);

 private:
  const Kernel& find(const std::string& kernel, std::size_t arguments) const;

  void* library_ = nullptr;
  const Library* entry_ = nullptr;
  std::map<std::string, const Kernel*> kernels_;
  BlockScheduler scheduler_;
};

// The addresses of arguments that stay where they are, for launch().
template <typename... Arguments>
std::vector<void*> addresses(Arguments&... arguments) {
  return {const_cast<std::remove_const_t<Arguments>*>(&arguments)...};
}

template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

}  // namespace hydrac::emulation
