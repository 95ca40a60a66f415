// Measures the speed of steps from their own times alone: evaluation and saving are not included.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/log/monotonic.h"

namespace hydrac::runtime {

// Number of steps whose spread is reported.
inline constexpr int64_t kSpreadSteps = 100;

struct StepSpread {
  double median = 0, percentile_95 = 0, longest = 0;  // seconds
};

class SpeedMeter {
 public:
  // `waited`, `communicated`: the seconds of these in which the step waited for its batches, and in which
  // ranks exchanged gradients.
  void add(double seconds, double waited, double communicated = 0);

  int64_t steps() const { return count_; }  // of the session
  // Mean over the last `steps` steps, or as many as there were; 0 before the first.
  double mean_seconds(int64_t steps) const;
  double mean_waited(int64_t steps) const;
  double mean_communicated(int64_t steps) const;
  // Spread of the last kSpreadSteps steps, or as many as there were, the session's first left out as below.
  StepSpread spread() const;
  // Median over the last kWindow steps; 0 before the first. The session's first step warms up caches and
  // threads, and counts only if it is the only one.
  double median_seconds() const;

 private:
  static constexpr int64_t kWindow = 1024;  // bounds the memory of endless runs

  // The last `steps` steps in order of time; the session's first is not among them unless it is the only one.
  std::vector<double> sorted(int64_t steps) const;

  std::vector<double> ring_, waited_, communicated_;  // the seconds of step n of the session at n % kWindow
  int64_t count_ = 0;                                 // steps of the session
};

}  // namespace hydrac::runtime
