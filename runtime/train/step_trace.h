// A timeline of some optimizer steps: the steps, their waits, and every call of the program with its layer
// and its place in the spec. Written in Chrome's trace format, which ui.perfetto.dev and chrome://tracing
// open.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/program/step_program.h"
#include "runtime/train/step_pipeline.h"

namespace hydrac::runtime {

class StepTrace {
 public:
  // Traces `steps` steps from step `first` on, counted from 1. `program` must outlive it.
  StepTrace(StepProgram& program, int64_t first, int64_t steps)
      : program_(program), first_(first), steps_(steps) {}

  // True if steps must have been finished before the one after `step` begins: recording starts or ends there.
  bool begins_after(int64_t step) const { return steps_ > 0 && step + 1 == first_; }
  bool ends_after(int64_t step) const { return recording_ && step + 1 == first_ + steps_; }

  void begin();
  void add(const FinishedStep& step);  // while it records
  // Writes what was recorded. RunError when it cannot.
  void end(const std::filesystem::path& path);

  bool recording() const { return recording_; }

 private:
  StepProgram& program_;
  const int64_t first_, steps_;
  bool recording_ = false;
  double start_ = 0;                 // the moment that its times are counted from
  std::vector<std::string> events_;  // JSON
};

}  // namespace hydrac::runtime
