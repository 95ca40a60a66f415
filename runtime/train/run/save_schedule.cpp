#include "runtime/train/run/save_schedule.h"

#include "runtime/train/speed_meter.h"

namespace hydrac::runtime {

void SaveSchedule::adopt(const std::optional<BestEvaluation>& best) {
  if (keeps_best_) best_ = best;
}

bool SaveSchedule::look_at_clock() {
  return too_old_ = every_seconds_ > 0 && monotonic_seconds() - saved_at_ >= every_seconds_;
}

void SaveSchedule::evaluated(int64_t step, double loss) {
  if (keeps_best_ && (!best_ || loss < best_->loss)) best_ = BestEvaluation{step, loss};
}

bool SaveSchedule::due(int64_t step) const {
  return too_old_ || (every_steps_ > 0 && step % every_steps_ == 0) || best_step() == step;
}

void SaveSchedule::saved() {
  saved_at_ = monotonic_seconds();
}

std::optional<int64_t> SaveSchedule::best_step() const {
  return best_ ? std::optional(best_->step) : std::nullopt;
}

}  // namespace hydrac::runtime
