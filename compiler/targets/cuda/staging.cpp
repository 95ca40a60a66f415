#include "targets/cuda/staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace hydrac::targets {

namespace cuda = runtime::cuda;

Staging::Staging(const driver::Compiled& compiled, int64_t batches, int64_t results)
    : compiled_(compiled),
      token_order_(compiled.graph.find("token_order")),
      order_(models::vocab_rows(compiled.spec)),
      batches_(static_cast<size_t>(batches)),
      results_(static_cast<size_t>(results) + 1) {  // the one before the oldest tells when that one began
  const optimizers::Metrics& m = compiled.metrics;
  std::vector<int64_t> offsets = {offset(m.step_loss), offset(m.grad_norm), offset(m.learning_rate)};
  if (m.loss_scale != ir::kNoValue) {
    offsets.push_back(offset(m.loss_scale));
    offsets.push_back(offset(m.skipped));
  }
  const auto [low, high] = std::ranges::minmax(offsets);
  first_metric_ = low;
  metric_bytes_ = high + 4 - low;
  for (Slot& slot : batches_) slot.memory = cuda::PinnedBuffer(compiled.plan.input_bytes);
  for (Slot& slot : results_) slot.memory = cuda::PinnedBuffer(metric_bytes_);
}

int64_t Staging::offset(ir::ValueId value) const {
  return plan::address(compiled_.graph, compiled_.plan, {value, {}}, 0);
}

template <typename T>
T* Staging::input(Slot& slot, ir::ValueId value) const {
  return reinterpret_cast<T*>(slot.memory.data() + offset(value));
}

template <typename T>
void Staging::copy(Slot& slot, ir::ValueId value, const std::vector<T>& from, const char* what) const {
  const int64_t wanted = element_count(compiled_.graph.value(value).shape);
  if (static_cast<int64_t>(from.size()) != wanted)
    throw std::logic_error(fmt::format("a batch has {} {}, the program takes {}", from.size(), what, wanted));
  std::ranges::copy(from, input<T>(slot, value));
}

void Staging::upload(const runtime::Batch& batch, float inv_count, std::byte* arena,
                     const cuda::Stream& stream) {
  Slot& slot = batches_[next_batch_++ % batches_.size()];
  if (next_batch_ > batches_.size()) slot.copied.synchronize();
  const models::Interface& io = compiled_.interface;
  if (io.tokens != ir::kNoValue) copy(slot, io.tokens, batch.tokens, "tokens");
  if (io.features != ir::kNoValue) copy(slot, io.features, batch.features, "features");
  if (compiled_.graph.value(io.targets).dtype == ir::DType::i32) {
    copy(slot, io.targets, batch.targets, "targets");
  } else {
    copy(slot, io.targets, batch.float_targets, "targets");
  }
  if (token_order_ != ir::kNoValue)
    order_.sort(batch.tokens, {input<int32_t>(slot, token_order_), batch.tokens.size()});
  *input<float>(slot, io.inv_count) = inv_count;
  cuda::copy_to_device(arena, slot.memory.data(), compiled_.plan.input_bytes, stream);
  slot.copied.record(stream);
}

void Staging::download_result(const std::byte* arena, const cuda::Stream& stream) {
  Slot& slot = results_[next_result_++ % results_.size()];
  slot.batches = next_batch_;
  cuda::copy_to_host(slot.memory.data(), arena + first_metric_, metric_bytes_, stream);
  slot.copied.record(stream);
}

template <typename T>
T Staging::scalar(const Slot& slot, ir::ValueId value) const {
  T result;
  std::memcpy(&result, slot.memory.data() + (offset(value) - first_metric_), sizeof result);
  return result;
}

runtime::StepResult Staging::oldest_result() {
  if (oldest_result_ == next_result_) throw std::logic_error("no step is unfinished");
  const Slot& slot = results_[oldest_result_ % results_.size()];
  slot.copied.synchronize();
  if (oldest_result_ > 0)
    step_times_.push_back(slot.copied.ms_since(results_[(oldest_result_ - 1) % results_.size()].copied));
  ++oldest_result_;
  const optimizers::Metrics& m = compiled_.metrics;
  runtime::StepResult result;
  result.loss = scalar<float>(slot, m.step_loss);
  result.grad_norm = scalar<float>(slot, m.grad_norm);
  result.learning_rate = scalar<float>(slot, m.learning_rate);
  if (m.loss_scale != ir::kNoValue) {
    result.loss_scale = scalar<float>(slot, m.loss_scale);
    result.skipped = scalar<int32_t>(slot, m.skipped) != 0;
  }
  return result;
}

std::vector<std::span<const std::byte>> Staging::finished_inputs() const {
  if (oldest_result_ == 0) throw std::logic_error("no step is finished");
  const size_t end = results_[(oldest_result_ - 1) % results_.size()].batches;
  const auto count = static_cast<size_t>(compiled_.spec.train.gradient_accumulation_steps);
  if (next_batch_ - (end - count) > batches_.size()) throw std::logic_error("the step's batches are gone");
  std::vector<std::span<const std::byte>> inputs;
  for (size_t batch = end - count; batch < end; ++batch) {
    const Slot& slot = batches_[batch % batches_.size()];
    inputs.emplace_back(slot.memory.data(), static_cast<size_t>(compiled_.plan.input_bytes));
  }
  return inputs;
}

std::vector<double> Staging::take_step_times() {
  return std::exchange(step_times_, {});
}

}  // namespace hydrac::targets
