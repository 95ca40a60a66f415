#include "runtime/train/speed_meter.h"

#include <algorithm>
#include <chrono>

namespace hydrac::runtime {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void SpeedMeter::add(double seconds) {
  if (count_ < kWindow) {
    ring_.push_back(seconds);
  } else {
    ring_[static_cast<size_t>(count_ % kWindow)] = seconds;
  }
  ++count_;
}

double SpeedMeter::mean_seconds(int64_t steps) const {
  steps = std::min({steps, count_, kWindow});
  if (steps <= 0) return 0;
  double sum = 0;
  for (int64_t i = count_ - steps; i < count_; ++i) sum += ring_[static_cast<size_t>(i % kWindow)];
  return sum / static_cast<double>(steps);
}

double SpeedMeter::median_seconds() const {
  if (count_ == 0) return 0;
  const bool has_first = count_ > 1 && count_ <= kWindow;
  std::vector<double> sorted(ring_.begin() + (has_first ? 1 : 0), ring_.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace hydrac::runtime
