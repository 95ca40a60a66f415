// Loaded device code: a cubin (or PTX, which the driver compiles), its kernels, and launching them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/cuda/stream.h"

namespace hydrac::device_code {

// One kernel of a Module, which must outlive it. A small value: copy it freely.
class Kernel {
 public:
  const std::string& name() const { return *name_; }
  // Resources that the compiler gave it.
  int registers() const;              // per thread
  std::int64_t local_bytes() const;   // per thread: stack and spills
  std::int64_t shared_bytes() const;  // per block, static
  int max_threads() const;            // per block, as its registers allow
  // Blocks of this size that one multiprocessor runs at a time.
  int blocks_per_sm(int threads, std::int64_t dynamic_shared_bytes) const;

  runtime::cuda::abi::CUfunction handle() const { return function_; }

 private:
  friend class Module;
  Kernel(runtime::cuda::abi::CUfunction function, const std::string* name)
      : function_(function), name_(name) {}
  runtime::cuda::abi::CUfunction function_ = nullptr;
  const std::string* name_ = nullptr;  // owned by the Module
};

class Module {
 public:
  // `image` is a cubin or PTX text (compile() makes both). RunError with the driver's words if it rejects the
  // image; if the cause is an older driver, the message names an NVRTC that fits.
  explicit Module(std::string_view image);
  ~Module();
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;

  // An extern "C" __global__ function. Launches may ask for all shared memory that the device has for a
  // block. Throws std::logic_error when there is no such kernel.
  Kernel kernel(const std::string& name) const;
  // The address and size of a __device__ or __constant__ variable.
  void* global(const std::string& name, std::int64_t* bytes = nullptr) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Dim3 {
  std::int64_t x = 1, y = 1, z = 1;
};

struct LaunchShape {
  Dim3 grid, block;  // grid: up to 2^31-1, 65535, 65535
  std::int64_t dynamic_shared_bytes = 0;
  int cluster = 1;  // blocks of grid.x that form one cluster (capability 90 and newer); divides grid.x
  // The kernel may be launched while the previous one on the stream still runs, and waits for it with
  // griddepcontrol.wait (capability 90 and newer). Set where follows_kernels() allows it.
  bool overlap_previous = false;
};

// `arguments` points to one pointer per kernel parameter, as cuLaunchKernel takes them. RunError that names
// the kernel if CUDA refuses the launch; a failure during its run is reported by a later synchronization.
void launch(const Kernel& kernel, const LaunchShape& shape, void* const* arguments,
            const runtime::cuda::Stream& stream);

}  // namespace hydrac::device_code
