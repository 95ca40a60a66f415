// The memory of a program: on the GPU, and where the plan says so its end in the host's memory, at addresses
// that go on without a gap, so that nobody who has an address need know where it leads.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/abi/driver.h"
#include "runtime/cuda/memory.h"

namespace hydrac::runtime::cuda {

class Arena {
 public:
  Arena() = default;
  // Takes `device_bytes` of the GPU whose context is current, and `host_bytes` that it reads and writes over
  // its bus, pinned. Where there are some, both are multiples of 2 MiB. RunError when one of them is not
  // free; InputError where the GPU's driver cannot put the host's memory behind its own.
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
