// Why the steps of a run take unequal times: what those that took longer than the median waited for.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/step_pipeline.h"

namespace hydrac::runtime {

class StepUnevenness {
 public:
  // The session's first step, which warms up caches and threads, is left out.
  void add(const FinishedStep& step);
  // Validation or saving stands between the step added last and the next one.
  void pause() { paused_ = true; }

  // A sentence if the excess of steps longer than the median took a tenth of the time, in a session of at
  // least 50 steps and half a minute; "" otherwise. It is about the last kWindow steps.
  std::string explain() const;

 private:
  static constexpr size_t kWindow = 1024;  // bounds the memory of endless runs

  // In seconds: the step, and what it spent on each thing that is known to vary.
  struct Step {
    double all, data, ranks, sampling;
    bool follows_pause;
  };

  double median(double Step::*part) const;

  std::vector<Step> ring_;  // step n of the session at n % kWindow, counted from its second
  int64_t count_ = -1;      // of steps that were added, but for the first
  double seconds_ = 0;      // of all of these
  bool paused_ = false;
};

}  // namespace hydrac::runtime
