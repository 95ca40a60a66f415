// The learning rate of a step, from the formulas of the schedules alone.
#pragma once
#include "oracle/job/job.h"

namespace hydrac::oracle {

// `step` counts from 0. A factor of the optimizer's learning rate: (step + 1) / warmup_steps while warming
// up, then constant 1, linear or cosine from 1 to min_ratio, which the last of decay_steps steps has, or
// (wsd) 1 until the last decay_steps steps and linear to min_ratio over them, or a function of (step,
// max_steps).
double learning_rate_factor(const ScheduleSpec& schedule, std::int64_t step);

}  // namespace hydrac::oracle
