// How long a stream takes between two places, by the GPU's own clock. Unlike events, stamps may be read while
// later launches of the graph that holds them are on their way.
#pragma once
#include <cstdint>

#include "runtime/cuda/memory.h"
#include "runtime/cuda/stream.h"

namespace hydrac::runtime::cuda {

class Stopwatch {
 public:
  Stopwatch();  // the GPU's context must be current, here and while it lives
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // Put a kernel of one thread on `stream`; may be captured in a graph.
  void begin(const Stream& stream) const { stamp(0, stream); }
  void end(const Stream& stream) const { stamp(1, stream); }

  // From the latest begin() that has run to the latest end(); 0 before, and while only the former has.
  double seconds() const;

 private:
  void stamp(int which, const Stream& stream) const;

  abi::CUmodule module_ = nullptr;
  abi::CUfunction kernel_ = nullptr;
  PinnedBuffer stamps_{2 * sizeof(std::uint64_t)};  // nanoseconds
};

}  // namespace hydrac::runtime::cuda
