// Optimizer steps on random batches, as the training loop runs them, with results read late if the program
// allows. With an objective, sampling and scoring are left out, and micro-batches of data replace those of
// replies.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/program/step_program.h"
#include "targets/executable/executable.h"
#include "verify/job.h"

namespace hydrac::tune {

double median(std::vector<double> values);

class TimedSteps {
 public:
  explicit TimedSteps(targets::Executable& program);

  // Seconds of each of `count` steps, by the target's clock or by this machine's. `micro_batches`: the most
  // of a step's micro-batches that are computed; the update is that of a whole step.
  std::vector<double> run(int64_t count, int64_t micro_batches = kAllMicroBatches);
  static constexpr int64_t kAllMicroBatches = std::numeric_limits<int64_t>::max();

  // The steps go on, or begin again with the first batch after steps().initialize().
  void rewind() { next_ = 0; }
  const runtime::StepResult& last_result() const { return result_; }

 private:
  targets::Executable& executable_;
  runtime::StepProgram& program_;
  verify::Batches batches_;
  runtime::StepResult result_;
  int64_t next_ = 0;
};

}  // namespace hydrac::tune
