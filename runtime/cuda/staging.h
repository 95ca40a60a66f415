// What passes between host and GPU while a program runs: batches in, each as one copy from pinned memory, and
// every optimizer step's scalars out. Nothing here waits for the GPU but oldest_result(), and an upload that
// would overwrite a batch that is not copied yet.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/memory.h"
#include "runtime/cuda/stream.h"
#include "runtime/cuda/token_order.h"
#include "runtime/program/transfer.h"

namespace hydrac::runtime::cuda {

class Staging {
 public:
  // `layout` must outlive this. `batches`: how many may be on their way at once, `results` likewise.
  Staging(const ProgramLayout& layout, int64_t batches, int64_t results);

  // Copies the batch and queues its way to the inputs at the start of `arena`.
  void upload(const Batch& batch, float inv_count, std::byte* arena, const Stream& stream);

  // Queues the scalars of the step that just ended.
  void download_result(const std::byte* arena, const Stream& stream);
  // Waits for the oldest of them.
  StepResult oldest_result();

  // The input_bytes of each batch of the step whose result was read last, while they are not overwritten: no
  // more than `batches` uploads ago.
  std::vector<std::span<const std::byte>> finished_inputs() const;
  // Steps that ended after that one.
  int64_t later_steps() const { return static_cast<int64_t>(next_result_ - oldest_result_); }

  // Milliseconds from one step's end to the next one's, since the last call.
  std::vector<double> take_step_times();

 private:
  struct Slot {
    PinnedBuffer memory;
    Event copied{Event::Use::timing};
    size_t batches = 0;  // of a result: uploads before the step's end
  };

  const ProgramLayout& layout_;
  ByteRange result_range_;
  TokenOrder order_;
  std::vector<Slot> batches_, results_;  // rings
  size_t next_batch_ = 0;
  size_t next_result_ = 0, oldest_result_ = 0;  // counted without end; modulo the ring's size
  std::vector<double> step_times_;
};

}  // namespace hydrac::runtime::cuda
