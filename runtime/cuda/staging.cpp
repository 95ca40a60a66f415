#include "runtime/cuda/staging.h"

#include <stdexcept>
#include <utility>

#include "runtime/program/hooks.h"

namespace hydrac::runtime::cuda {

Staging::Staging(const ProgramLayout& layout, int64_t batches, int64_t results)
    : layout_(layout),
      result_range_(step_result_range(layout)),
      token_order_(layout.inputs.token_ids),
      position_order_(layout.inputs.position_ids),
      batches_(HostRing::Direction::to_device, layout.input_bytes, static_cast<size_t>(batches)),
      // The step before the oldest one tells when that one began.
      results_(HostRing::Direction::to_host, result_range_.last - result_range_.first,
               static_cast<size_t>(results) + 1),
      readers_(static_cast<size_t>(batches)),
      steps_(static_cast<size_t>(results) + 1) {}

void Staging::put(const Batch& batch, float inv_count, const Stream& stream) {
  size_t& reader = readers_[next_batch_ % readers_.size()];
  if (next_batch_ >= readers_.size()) {
    // A step that has not ended yet has evaluated since, or has more micro-batches than there are slots.
    reader < next_step_ ? step(reader).ended.synchronize() : stream.synchronize();
  }
  reader = next_step_;
  std::byte* const inputs = batches_.slot(next_batch_++);
  fill_inputs(layout_.inputs, batch, inv_count, inputs);
  // Takes the ids as fill_inputs() put them there.
  const auto put_order = [&](Place place, TokenOrder& order, Place ids) {
    const auto at = [&](Place of) { return reinterpret_cast<int32_t*>(inputs + of.offset); };
    const auto count = static_cast<size_t>(ids.elements);
    if (place) order.sort({at(ids), count}, {at(place), count});
  };
  put_order(layout_.inputs.token_order, token_order_, layout_.inputs.tokens);
  put_order(layout_.inputs.position_order, position_order_, layout_.inputs.positions);
}

void Staging::add_metrics(std::vector<MetricText> metrics, std::byte* values) {
  if (metrics.empty()) return;
  hook_metrics_ = std::move(metrics);
  hook_values_ = values;
  hook_results_.emplace(HostRing::Direction::to_host,
                        static_cast<int64_t>(hook_metrics_.size() * sizeof(float)), steps_.size());
}

void Staging::begin_step(const Stream& stream) {
  if (later_steps() > 0) return;
  begun_after_pause_ = next_step_;
  began_.record(stream);
}

void Staging::end_step(const Stream& stream) {
  Step& ending = steps_[next_step_++ % steps_.size()];
  ending.batches = next_batch_;
  ending.ended.record(stream);
}

StepResult Staging::oldest_result() {
  if (oldest_step_ == next_step_) throw std::logic_error("no step is unfinished");
  const Event& ended = step(oldest_step_).ended;
  ended.synchronize();
  const bool follows_pause = oldest_step_ == begun_after_pause_;
  step_times_.push_back(ended.ms_since(follows_pause ? began_ : step(oldest_step_ - 1).ended));
  StepResult result = step_result(layout_, results_.slot(oldest_step_), result_range_.first);
  if (hook_results_) add_hook_metrics(result, hook_metrics_, hook_results_->slot(oldest_step_));
  ++oldest_step_;
  return result;
}

std::vector<std::span<const std::byte>> Staging::finished_inputs() const {
  if (oldest_step_ == 0) throw std::logic_error("no step is finished");
  const size_t end = step(oldest_step_ - 1).batches;
  const auto count = static_cast<size_t>(layout_.gradient_accumulation_steps);
  if (next_batch_ - (end - count) > readers_.size()) throw std::logic_error("the step's batches are gone");
  std::vector<std::span<const std::byte>> inputs;
  for (size_t batch = end - count; batch < end; ++batch)
    inputs.emplace_back(batches_.slot(batch), static_cast<size_t>(layout_.input_bytes));
  return inputs;
}

std::vector<double> Staging::take_step_times() {
  return std::exchange(step_times_, {});
}

}  // namespace hydrac::runtime::cuda
