// Optimizer steps in flight: the host prepares and begins the next ones while the device works on the oldest.
#pragma once
#include <cstdint>
#include <deque>

#include "runtime/data/batch.h"
#include "runtime/program/step_program.h"
#include "runtime/train/objective.h"

namespace hydrac::runtime {

class Ranks;

struct FinishedStep {
  int64_t step = 0;     // its number, from 1
  int64_t targets = 0;  // of all its micro-batches
  int64_t samples = 0;  // likewise
  BatchStage stage;
  StepResult result;
  // Seconds since the step began, or since the previous step finished if that is later. So consecutive steps
  // add up to the time they took, and pauses between steps are in none.
  double seconds = 0;
  double waited = 0;        // seconds until its batches were there
  double communicated = 0;  // seconds in sums over ranks, waiting for slower ones included
  std::optional<ObjectiveResult> objective = {};
};

class StepPipeline {
 public:
  // All must outlive it. `step`: steps done before. `source` gives the micro-batches of a whole step; each of
  // `ranks` (null: one process) computes an equal share, rank 0 the first ones. `objective` (null: none)
  // begins each step, which must then finish before the next one begins.
  StepPipeline(StepProgram& program, BatchSource& source, int64_t step, const Ranks* ranks = nullptr,
               ReplyObjective* objective = nullptr)
      : program_(program), source_(source), step_(step), ranks_(ranks), objective_(objective) {}

  // Begins the next step. There must be room(). InputError if its batches have no targets. The program's
  // RunErrors are rethrown with the steps that they may belong to. After a RewardError no step is begun.
  void begin();
  // Waits for the oldest step; there must be one (std::logic_error). RunErrors as begin() throws them.
  FinishedStep finish();

  int64_t begun() const { return step_; }
  int64_t unfinished() const { return static_cast<int64_t>(pending_.size()); }
  bool room() const { return unfinished() < steps_in_flight(); }
  int64_t steps_in_flight() const { return objective_ ? 1 : program_.facts().steps_in_flight; }

 private:
  struct Pending {
    int64_t step, targets, samples;
    BatchStage stage;
    double began, waited, communicated;
    std::optional<ObjectiveResult> objective;
  };

  [[noreturn]] void fail(int64_t newest, const char* message) const;

  StepProgram& program_;
  BatchSource& source_;
  int64_t step_;
  const Ranks* ranks_;
  ReplyObjective* objective_;
  std::deque<Pending> pending_;
  double last_finish_ = 0;
};

}  // namespace hydrac::runtime
