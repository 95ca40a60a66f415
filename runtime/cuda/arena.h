// The memory of a program: on the GPU, with its end in host memory if the plan says so. Addresses are
// contiguous, so code with an address need not know which memory it is in.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/abi/driver.h"
#include "runtime/cuda/memory.h"

namespace hydrac::runtime::cuda {

class Arena {
 public:
  Arena() = default;
  // Takes `device_bytes` of the GPU whose context is current, and `host_bytes` of pinned memory that it
  // accesses over its bus. If host_bytes is not 0, both are multiples of 2 MiB. RunError if either is not
  // free; InputError if the GPU's driver cannot map host memory after its own.
  Arena(std::int64_t device_bytes, std::int64_t host_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }

 private:
  void map(std::int64_t at, std::int64_t bytes, const abi::CUmemAllocationProp& kind, const char* whose);
  void release() noexcept;

  DeviceBuffer whole_;  // where all of it is the GPU's
  std::byte* data_ = nullptr;
  std::int64_t reserved_ = 0, mapped_ = 0;  // of addresses
  int device_ = 0;
};

}  // namespace hydrac::runtime::cuda
