// The GPUs of this machine, and the context that all work on one of them happens in.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cuda/abi/driver.h"

namespace hydrac::runtime::cuda {

struct DeviceInfo {
  int ordinal = 0;  // as CUDA counts them (CUDA_VISIBLE_DEVICES applies)
  std::string name;
  int capability = 0;  // 90 is compute capability 9.0
  int sms = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t shared_bytes = 0;  // the most that a block can have, asked for explicitly
  int driver_version = 0;         // of CUDA, that the driver implements: 13000 is 13.0
  std::string pci_bus_id;         // "0000:1b:00.0", by which NVML knows it
};

// Every GPU that CUDA sees; creates no context. Throws InputError, saying what to install or do, when there
// is no driver, one that is too old, or no GPU.
std::vector<DeviceInfo> devices();

// The primary context of one device, made current on the thread that constructs it. Everything in this folder
// that touches the GPU needs a context current on its thread.
class Context {
 public:
  // Throws InputError when there is no such device, RunError when CUDA cannot make the context.
  explicit Context(int ordinal = 0);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // For each further thread that uses the GPU.
  void make_current() const;
  // Until everything that this context was given is done. Throws RunError when a kernel failed.
  void synchronize() const;

  const DeviceInfo& device() const { return device_; }
  // Free now, other processes considered; and total.
  std::int64_t free_bytes() const;
  std::int64_t total_bytes() const;

 private:
  DeviceInfo device_;
  abi::CUcontext context_ = nullptr;
};

}  // namespace hydrac::runtime::cuda
