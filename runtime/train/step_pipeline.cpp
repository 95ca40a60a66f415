#include "runtime/train/step_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

#include "runtime/error.h"
#include "runtime/parallel/ranks.h"
#include "runtime/train/speed_meter.h"

namespace hydrac::runtime {

// A device may work on several steps when one fails.
void StepPipeline::fail(int64_t newest, const char* message) const {
  const int64_t oldest = pending_.empty() ? newest : pending_.front().step;
  if (oldest == newest) throw RunError(fmt::format("step {}: {}", newest, message));
  throw RunError(fmt::format("one of the steps {} to {}: {}", oldest, newest, message));
}

void StepPipeline::begin() {
  if (!room()) throw std::logic_error("a step was begun while the program has no room for it");
  const double began = monotonic_seconds();
  const int64_t first_sample = source_.samples_seen();
  const std::vector<Batch>& batches = source_.next();
  const double waited = monotonic_seconds() - began;
  int64_t targets = 0, terms = 0;
  for (const Batch& batch : batches) {
    targets += batch.target_count;
    terms += batch.loss_terms();
  }
  if (targets == 0) {
    throw InputError(fmt::format(
        "none of the {} samples of step {} has a target; raise train.micro_batch_size, or remove what has no "
        "targets from the data",
        source_.samples_seen() - first_sample, step_ + 1));
  }
  const auto inv_count = static_cast<float>(1.0 / static_cast<double>(terms));
  const size_t share = batches.size() / static_cast<size_t>(ranks_ ? ranks_->size(RankGroup::data) : 1);
  const size_t first = share * static_cast<size_t>(ranks_ ? ranks_->rank(RankGroup::data) : 0);
  const double communicated = ranks_ ? ranks_->seconds() : 0;
  std::optional<ObjectiveResult> objective;
  try {
    if (objective_) objective = objective_->begin_step(step_ + 1, batches);
    for (const Batch& batch : std::span(batches).subspan(first, share)) program_.micro_step(batch, inv_count);
    program_.update();
  } catch (const RewardError& error) {
    source_.seek_samples(first_sample);
    throw RewardError(fmt::format("step {}: {}", step_ + 1, error.what()));
  } catch (const RunError& error) {
    fail(step_ + 1, error.what());
  }
  pending_.push_back({++step_, targets, source_.samples_seen() - first_sample, batches[0].stage, began,
                      waited, ranks_ ? ranks_->seconds() - communicated : 0, objective});
}

FinishedStep StepPipeline::finish() {
  if (pending_.empty()) throw std::logic_error("no step is unfinished");
  const Pending pending = pending_.front();
  StepResult result;
  try {
    result = program_.finish_step();
  } catch (const RunError& error) {
    fail(step_, error.what());
  }
  pending_.pop_front();
  const double finished = monotonic_seconds();
  const double seconds = finished - std::max(pending.began, last_finish_);
  last_finish_ = finished;
  return {
      pending.step,     pending.targets, pending.samples, pending.stage,
      result,           seconds,         pending.waited,  pending.communicated + result.communication_seconds,
      pending.objective};
}

}  // namespace hydrac::runtime
