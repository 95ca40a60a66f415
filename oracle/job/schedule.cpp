#include "oracle/job/schedule.h"

#include <algorithm>
#include <cmath>

namespace hydrac::oracle {
namespace {

// The share of the steps [begin, begin + length) that is done after `step`.
double progress(std::int64_t step, std::int64_t begin, std::int64_t length) {
  if (length <= 0) return step < begin ? 0.0 : 1.0;
  return std::clamp(static_cast<double>(step + 1 - begin) / static_cast<double>(length), 0.0, 1.0);
}

}  // namespace

void AdaptedShare::see(std::int64_t step, double loss) {
  if (schedule_.name != "adaptive" || step < schedule_.warmup_steps) return;
  sum_ += loss;
  if (++count_ < schedule_.patience) return;
  const double mean = sum_ / static_cast<double>(count_);
  sum_ = 0;
  count_ = 0;
  if (lowest_ && mean >= *lowest_ - schedule_.threshold * std::abs(*lowest_))
    share_ = std::max(schedule_.min_ratio, share_ * schedule_.factor);
  lowest_ = std::min(lowest_.value_or(mean), mean);
}

double learning_rate_factor(const ScheduleSpec& schedule, std::int64_t step, double adapted) {
  if (step < schedule.warmup_steps)
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  const double low = schedule.min_ratio;
  if (schedule.function)
    return evaluate(*schedule.function, {static_cast<double>(step), static_cast<double>(schedule.max_steps)});
  if (schedule.name == "constant") return 1.0;
  if (schedule.name == "adaptive") return adapted;
  if (schedule.name == "wsd") {
    if (schedule.decay_steps == 0) return 1.0;
    const std::int64_t decay_begin = schedule.max_steps - schedule.decay_steps;
    return 1.0 - (1.0 - low) * progress(step, decay_begin, schedule.decay_steps);
  }
  const double t = progress(step, schedule.warmup_steps, schedule.decay_steps);
  if (schedule.name == "linear") return 1.0 - (1.0 - low) * t;
  return low + 0.5 * (1.0 - low) * (1.0 + std::cos(std::acos(-1.0) * t));
}

}  // namespace hydrac::oracle
