// A tenth of the learning rate at half of the run, and a tenth of that at three quarters.
#pragma once

inline double step_decay(double step, double max_steps) {
  if (step < 0.5 * max_steps) return 1.0;
  return step < 0.75 * max_steps ? 0.1 : 0.01;
}
