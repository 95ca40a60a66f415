#include "runtime/cuda/staging.h"

#include <stdexcept>
#include <utility>

namespace hydrac::runtime::cuda {

Staging::Staging(const ProgramLayout& layout, int64_t batches, int64_t results)
    : layout_(layout),
      result_range_(step_result_range(layout.results)),
      order_(layout.inputs.token_ids),
      batches_(static_cast<size_t>(batches)),
      results_(static_cast<size_t>(results) + 1) {  // the one before the oldest tells when that one began
  for (Slot& slot : batches_) slot.memory = PinnedBuffer(layout.input_bytes);
  for (Slot& slot : results_) slot.memory = PinnedBuffer(result_range_.last - result_range_.first);
}

void Staging::upload(const Batch& batch, float inv_count, std::byte* arena, const Stream& stream) {
  Slot& slot = batches_[next_batch_++ % batches_.size()];
  if (next_batch_ > batches_.size()) slot.copied.synchronize();
  fill_inputs(layout_.inputs, batch, inv_count, slot.memory.data());
  if (const Place order = layout_.inputs.token_order) {
    auto* const first = reinterpret_cast<int32_t*>(slot.memory.data() + order.offset);
    order_.sort(batch.tokens, {first, batch.tokens.size()});
  }
  copy_to_device(arena, slot.memory.data(), layout_.input_bytes, stream);
  slot.copied.record(stream);
}

void Staging::download_result(const std::byte* arena, const Stream& stream) {
  Slot& slot = results_[next_result_++ % results_.size()];
  slot.batches = next_batch_;
  copy_to_host(slot.memory.data(), arena + result_range_.first, slot.memory.bytes(), stream);
  slot.copied.record(stream);
}

StepResult Staging::oldest_result() {
  if (oldest_result_ == next_result_) throw std::logic_error("no step is unfinished");
  const Slot& slot = results_[oldest_result_ % results_.size()];
  slot.copied.synchronize();
  if (oldest_result_ > 0)
    step_times_.push_back(slot.copied.ms_since(results_[(oldest_result_ - 1) % results_.size()].copied));
  ++oldest_result_;
  return step_result(layout_.results, slot.memory.data(), result_range_.first);
}

std::vector<std::span<const std::byte>> Staging::finished_inputs() const {
  if (oldest_result_ == 0) throw std::logic_error("no step is finished");
  const size_t end = results_[(oldest_result_ - 1) % results_.size()].batches;
  const auto count = static_cast<size_t>(layout_.gradient_accumulation_steps);
  if (next_batch_ - (end - count) > batches_.size()) throw std::logic_error("the step's batches are gone");
  std::vector<std::span<const std::byte>> inputs;
  for (size_t batch = end - count; batch < end; ++batch) {
    const Slot& slot = batches_[batch % batches_.size()];
    inputs.emplace_back(slot.memory.data(), static_cast<size_t>(layout_.input_bytes));
  }
  return inputs;
}

std::vector<double> Staging::take_step_times() {
  return std::exchange(step_times_, {});
}

}  // namespace hydrac::runtime::cuda
