// Runs attention's forward pass on random numbers, to see how long it takes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime/cudnn/attention.h"

namespace hydrac::runtime::cudnn {

// True if a forward pass takes so long that its plan matters: 0.1 ms on a large GPU.
bool is_worth_measuring(const AttentionProblem& problem);

class ForwardBench {
 public:
  using Run = std::function<void(const ForwardPointers&, void* workspace)>;

  // Bytes of device memory that its tensors and a workspace take.
  static std::int64_t bytes(const AttentionProblem& problem, std::int64_t workspace_bytes);
  // Writes random numbers to `scratch`, a multiple of 256 that has bytes(); it must outlive this.
  ForwardBench(const AttentionProblem& problem, std::byte* scratch, const cuda::Stream& stream);

  // Milliseconds that `run` takes, which queues one pass on the stream: the median of several times.
  double ms(const Run& run) const;

 private:
  const cuda::Stream& stream_;
  ForwardPointers pointers_;
  std::byte* workspace_ = nullptr;
};

}  // namespace hydrac::runtime::cudnn
