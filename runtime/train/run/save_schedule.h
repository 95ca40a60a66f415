// Decides when a run saves: every so many steps, when its newest checkpoint is too old, and after its best
// evaluations.
#pragma once
#include <cstdint>
#include <optional>

namespace hydrac::runtime {

// The evaluation with the least loss so far, after whose step there is a checkpoint.
struct BestEvaluation {
  int64_t step = 0;
  double loss = 0;
};

class SaveSchedule {
 public:
  // 0 and false: not for this reason.
  SaveSchedule(int64_t every_steps, double every_seconds, bool best)
      : every_steps_(every_steps), every_seconds_(every_seconds), keeps_best_(best) {}

  // Takes over the best evaluation of the run that is continued.
  void adopt(const std::optional<BestEvaluation>& best);
  // Called before each step: whether the newest checkpoint is too old. due() keeps the answer until the next
  // look, so that all callers get the same one; decide() sets an answer from elsewhere.
  bool look_at_clock();
  void decide(bool is_too_old) { too_old_ = is_too_old; }
  void evaluated(int64_t step, double loss);
  // For the step begun last, whose evaluation may still be ahead.
  bool due(int64_t step) const;
  // The newest checkpoint is of now. Also when training begins.
  void saved();

  const std::optional<BestEvaluation>& best() const { return best_; }
  std::optional<int64_t> best_step() const;

 private:
  int64_t every_steps_;
  double every_seconds_;
  bool keeps_best_;
  bool too_old_ = false;
  double saved_at_ = 0;
  std::optional<BestEvaluation> best_;
};

}  // namespace hydrac::runtime
