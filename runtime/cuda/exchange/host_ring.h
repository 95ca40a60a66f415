// A ring of pinned memory that GPU kernels read or write directly. With the copy engine, the graphs of two
// steps would wait for the copy and it for them: 18 us of a step of 370 us. This takes 4.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/memory.h"
#include "runtime/cuda/stream.h"

namespace hydrac::runtime::cuda {

class HostRing {
 public:
  enum class Direction { to_device, to_host };

  // `slots` times `bytes`, a multiple of 4. Needs a current context; RunError when CUDA refuses.
  HostRing(Direction direction, std::int64_t bytes, std::size_t slots);
  ~HostRing();
  HostRing(const HostRing&) = delete;
  HostRing& operator=(const HostRing&) = delete;

  // The slot that run number `run`, counted from 0, copies: `run` modulo the slots.
  std::byte* slot(std::size_t run) const;

  // Queues a copy of the next slot to `device`, or from there. The GPU counts the runs, so a graph that was
  // captured once uses the next slot at each launch. 4-byte aligned.
  void copy(std::byte* device, const Stream& stream) const;

 private:
  abi::CUmodule module_ = nullptr;
  abi::CUfunction kernel_ = nullptr;
  Direction direction_;
  std::int64_t bytes_;
  std::size_t slots_;
  unsigned blocks_;
  bool overlaps_;  // the kernel waits itself for the one before it
  PinnedBuffer ring_;
  DeviceBuffer next_slot_;  // of each block
};

}  // namespace hydrac::runtime::cuda
