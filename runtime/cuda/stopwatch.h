// Measures the time between pairs of points of a stream with the GPU's own clock. Unlike events, it may be
// read while later launches of the same graph run.
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

  // Enqueue a kernel of one thread on `stream`; may be captured in a graph. Each begin() needs its end()
  // before the next one.
  void begin(const Stream& stream) const { launch(begin_, stream); }
  void end(const Stream& stream) const { launch(end_, stream); }

  // Between all pairs of begin() and end() that have run since the last call of this.
  double seconds();

 private:
  void launch(abi::CUfunction kernel, const Stream& stream) const;

  abi::CUmodule module_ = nullptr;
  abi::CUfunction begin_ = nullptr, end_ = nullptr;
  PinnedBuffer times_{2 *
                      sizeof(std::uint64_t)};  // nanoseconds: of the latest begin(), and between all pairs
  std::uint64_t read_ = 0;                     // of these, by seconds()
};

}  // namespace hydrac::runtime::cuda
