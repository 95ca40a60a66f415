#include "tune/timed_steps.h"

#include <algorithm>
#include <chrono>
#include <span>

namespace hydrac::tune {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

TimedSteps::TimedSteps(targets::Executable& program)
    : executable_(program),
      program_(program.steps()),
      // Of steps that have whole sequences.
      batches_(verify::random_batches(program.compiled().spec, 4, 7,
                                      program.compiled().spec.train.sequence_warmup.steps)) {
  for (std::vector<runtime::Batch>& step : batches_)
    for (runtime::Batch& batch : step) batch.weights.clear();
}

std::vector<double> TimedSteps::run(int64_t count, int64_t micro_batches) {
  using Clock = std::chrono::steady_clock;
  executable_.take_step_times();
  std::vector<double> seconds;
  int64_t unread = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto start = Clock::now();
    const auto& micro = batches_[static_cast<size_t>(next_++) % batches_.size()];
    const std::span part(micro.data(), std::min(micro.size(), static_cast<size_t>(micro_batches)));
    for (const runtime::Batch& batch : part) program_.micro_step(batch, verify::inverse_count(micro));
    program_.update();
    if (++unread >= program_.facts().steps_in_flight) {
      result_ = program_.finish_step();
      --unread;
    }
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  for (; unread > 0; --unread) result_ = program_.finish_step();
  std::vector<double> timed = executable_.take_step_times();
  for (double& ms : timed) ms *= 1e-3;
  return timed.empty() ? seconds : timed;
}

}  // namespace hydrac::tune
