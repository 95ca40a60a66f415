// Records of steps: their results, their speed, and what the device says of itself.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/log/metrics.h"
#include "runtime/program/step_program.h"
#include "runtime/train/divergence.h"
#include "runtime/train/speed_meter.h"
#include "runtime/train/step_pipeline.h"
#include "runtime/train/step_unevenness.h"

namespace hydrac::runtime {

class StepRecords {
 public:
  struct Options {
    int64_t log_steps = 1;        // that means are of
    int64_t tokens_per_step = 0;  // 0: the step's targets
    double peak_flops = 0;        // a second, for mfu; 0: unknown
    bool is_parallel = false;     // ranks exchange gradients
  };
  // `program` must outlive it.
  StepRecords(StepProgram& program, const Options& options) : program_(program), options_(options) {}

  void add(const FinishedStep& step);
  // Validation or saving stands between the step added last and the next one.
  void pause() { unevenness_.pause(); }
  // Record of the step added last; cheap.
  MetricsRecord of(const FinishedStep& step, const SkippedSteps& skipped) const;
  // Adds fields that only recorded steps have: the spread of step times, and the device's load since the
  // previous record.
  void complete(MetricsRecord& record);

  // Once, where steps wait long for their data: a sentence that says so. "" otherwise.
  std::string data_stall();
  // For the end of a run: why its steps took unequal times, where they did (StepUnevenness::explain).
  std::string explain_unevenness() const { return unevenness_.explain(); }
  // Median of this session's steps; 0: there were none.
  double tokens_per_second() const;

 private:
  StepProgram& program_;
  const Options options_;
  SpeedMeter meter_;
  StepUnevenness unevenness_;
  int64_t tokens_per_step_ = 0;  // of the last one
  int64_t tokens_since_record_ = 0;
  std::optional<double> energy_joules_;  // of the device at the last record
  bool said_stall_ = false;
};

// A sentence for the end of a run whose pauses between steps took at least a fifth of its time; "" otherwise.
// All in seconds.
std::string pauses(double all, double evaluating, double saving);

}  // namespace hydrac::runtime
