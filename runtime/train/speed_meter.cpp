#include "runtime/train/speed_meter.h"

#include <algorithm>

namespace hydrac::runtime {

namespace {

double mean_of_last(const std::vector<double>& ring, int64_t count, int64_t steps) {
  const auto window = static_cast<int64_t>(ring.size());
  steps = std::min(steps, window);
  if (steps <= 0) return 0;
  double sum = 0;
  for (int64_t i = count - steps; i < count; ++i) sum += ring[static_cast<size_t>(i % window)];
  return sum / static_cast<double>(steps);
}

double median_of(const std::vector<double>& sorted) {
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace

void SpeedMeter::add(double seconds, double waited, double communicated) {
  const auto keep = [this](std::vector<double>& ring, double value) {
    if (count_ < kWindow)
      ring.push_back(value);
    else
      ring[static_cast<size_t>(count_ % kWindow)] = value;
  };
  keep(ring_, seconds);
  keep(waited_, waited);
  keep(communicated_, communicated);
  ++count_;
}

double SpeedMeter::mean_seconds(int64_t steps) const {
  return mean_of_last(ring_, count_, steps);
}

double SpeedMeter::mean_waited(int64_t steps) const {
  return mean_of_last(waited_, count_, steps);
}

double SpeedMeter::mean_communicated(int64_t steps) const {
  return mean_of_last(communicated_, count_, steps);
}

std::vector<double> SpeedMeter::sorted(int64_t steps) const {
  const int64_t first = std::max({count_ - steps, count_ - kWindow, std::min<int64_t>(1, count_ - 1)});
  std::vector<double> seconds;
  for (int64_t i = std::max<int64_t>(0, first); i < count_; ++i)
    seconds.push_back(ring_[static_cast<size_t>(i % kWindow)]);
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

double SpeedMeter::median_seconds() const {
  return count_ == 0 ? 0 : median_of(sorted(kWindow));
}

StepSpread SpeedMeter::spread() const {
  if (count_ == 0) return {};
  const std::vector<double> seconds = sorted(kSpreadSteps);
  return {median_of(seconds), seconds[(seconds.size() * 95 + 99) / 100 - 1], seconds.back()};
}

}  // namespace hydrac::runtime
