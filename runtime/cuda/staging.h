// Rings of pinned memory between host and GPU while a program runs: batches in, every optimizer step's
// scalars out. Only two things wait for the GPU: oldest_result(), and a batch that would overwrite one that
// the GPU may not have read yet.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/exchange/host_ring.h"
#include "runtime/cuda/stream.h"
#include "runtime/cuda/token_order.h"
#include "runtime/program/transfer.h"

namespace hydrac::runtime::cuda {

class Staging {
 public:
  // `layout` must outlive this. `batches`: how many may be on their way at once, `results` likewise.
  Staging(const ProgramLayout& layout, int64_t batches, int64_t results);

  // The batch for the next receive(). `stream` is where those run.
  void put(const Batch& batch, float inv_count, const Stream& stream);
  // receive() queues the copy of the next batch to the inputs at the start of `arena`; send() queues the copy
  // of a step's scalars to the host. Both may be captured in a graph; each launch then counts as a call.
  void receive(std::byte* arena, const Stream& stream) const { batches_.copy(arena, stream); }
  void send(std::byte* arena, const Stream& stream) const {
    results_.copy(arena + result_range_.first, stream);
    if (hook_results_) hook_results_->copy(hook_values_, stream);
  }
  // Each step's result has the hooks' metrics too, from `values` in the GPU's memory. Before the first
  // send().
  void add_metrics(std::vector<MetricText> metrics, std::byte* values);
  // A step's first batch is put, and nothing of the step is queued yet.
  void begin_step(const Stream& stream);
  // A step is queued, its scalars sent.
  void end_step(const Stream& stream);
  // Waits for the oldest step's.
  StepResult oldest_result();

  // The input_bytes of each batch of the step whose result was read last, unless they are overwritten: they
  // must be among the last `batches` batches.
  std::vector<std::span<const std::byte>> finished_inputs() const;
  // Steps that ended after that one.
  int64_t later_steps() const { return static_cast<int64_t>(next_step_ - oldest_step_); }

  // Milliseconds of the steps since the last call. A step counts from the end of the one before, or from its
  // own start if that result had been read already, so that pauses are left out.
  std::vector<double> take_step_times();

 private:
  struct Step {
    Event ended{Event::Use::timing};
    size_t batches = 0;  // put before its end
  };
  const Step& step(size_t number) const { return steps_[number % steps_.size()]; }

  const ProgramLayout& layout_;
  ByteRange result_range_;
  TokenOrder token_order_, position_order_;
  HostRing batches_, results_;
  std::optional<HostRing> hook_results_;  // its slots are those of results_
  std::vector<MetricText> hook_metrics_;
  std::byte* hook_values_ = nullptr;
  std::vector<size_t> readers_;  // of each slot of batches_: the step that reads it
  std::vector<Step> steps_;      // a ring
  size_t next_batch_ = 0;
  size_t next_step_ = 0, oldest_step_ = 0;  // counted without end
  Event began_{Event::Use::timing};         // the step begun last of those that followed a pause
  size_t begun_after_pause_ = 0;            // its number
  std::vector<double> step_times_;
};

}  // namespace hydrac::runtime::cuda
