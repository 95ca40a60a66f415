// The learning rate of a step, from the formulas of the schedules alone.
#pragma once
#include <optional>

#include "oracle/job/job.h"

namespace hydrac::oracle {

// The share of the rate that an adaptive schedule leaves. After warmup, the mean loss of each `patience`
// steps is compared with the lowest one before; where it is not lower by `threshold` of that, the share is
// multiplied by `factor`, down to min_ratio.
class AdaptedShare {
 public:
  explicit AdaptedShare(const ScheduleSpec& schedule) : schedule_(schedule) {}

  double share() const { return share_; }
  void see(std::int64_t step, double loss);

 private:
  const ScheduleSpec& schedule_;
  double share_ = 1, sum_ = 0;
  std::int64_t count_ = 0;
  std::optional<double> lowest_;
};

// `step` counts from 0. A factor of the optimizer's learning rate: (step + 1) / warmup_steps while warming
// up, then constant 1, linear or cosine from 1 to min_ratio, which the last of decay_steps steps has, or
// (wsd) 1 until the last decay_steps steps and linear to min_ratio over them, or a function of (step,
// max_steps).
// `adapted`: AdaptedShare's.
double learning_rate_factor(const ScheduleSpec& schedule, std::int64_t step, double adapted = 1);

}  // namespace hydrac::oracle
