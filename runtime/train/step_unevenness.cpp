#include "runtime/train/step_unevenness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace hydrac::runtime {

namespace {

constexpr int64_t kLeastSteps = 50;
constexpr double kLeastSeconds = 30, kLeastShare = 0.1;

struct Cause {
  const char* text;
  double seconds = 0;
};

// Seconds, of `left`, that a cause explains which took `taken` where `usual` is the median.
double explained(double& left, double taken, double usual) {
  const double part = std::min(left, std::max(0.0, taken - usual));
  left -= part;
  return part;
}

}  // namespace

void StepUnevenness::add(const FinishedStep& step) {
  if (count_++ < 0) return;
  const Step kept = {step.seconds, step.waited, step.communicated,
                     step.objective ? step.objective->seconds : 0, std::exchange(paused_, false)};
  seconds_ += step.seconds;
  if (ring_.size() < kWindow)
    ring_.push_back(kept);
  else
    ring_[static_cast<size_t>(count_ - 1) % kWindow] = kept;
}

double StepUnevenness::median(double Step::*part) const {
  std::vector<double> values;
  for (const Step& step : ring_) values.push_back(step.*part);
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string StepUnevenness::explain() const {
  if (count_ < kLeastSteps || seconds_ < kLeastSeconds) return "";
  const double usual = median(&Step::all), data = median(&Step::data), ranks = median(&Step::ranks),
               sampling = median(&Step::sampling);
  Cause causes[] = {{"waiting for data (data_wait_ms)"},
                    {"waiting for other ranks (communication_ms)"},
                    {"sampling replies (sampling_ms)"},
                    {"in the first steps after validation or saving"},
                    {"for no reason known here: other processes on this machine, or a clock that changes"}};
  auto& [for_data, for_ranks, for_sampling, after_pauses, unknown] = causes;
  double all = 0, longest = 0, above = 0;
  for (const Step& step : ring_) {
    all += step.all;
    longest = std::max(longest, step.all);
    double left = std::max(0.0, step.all - usual);
    above += left;
    for_data.seconds += explained(left, step.data, data);
    for_ranks.seconds += explained(left, step.ranks, ranks);
    for_sampling.seconds += explained(left, step.sampling, sampling);
    (step.follows_pause ? after_pauses : unknown).seconds += left;
  }
  if (above < kLeastShare * all) return "";
  std::ranges::stable_sort(causes, std::ranges::greater(), &Cause::seconds);
  std::vector<std::string> parts;
  for (const Cause& cause : causes) {
    const double percent = 100 * cause.seconds / above;
    if (percent >= 1) parts.push_back(fmt::format("{:.0f}% {}", percent, cause.text));
  }
  return fmt::format(
      "steps are uneven: {:.1f} ms in the median, {:.1f} in the mean, {:.1f} at most; of the time above the "
      "median {}",
      1e3 * usual, 1e3 * all / static_cast<double>(ring_.size()), 1e3 * longest, fmt::join(parts, ", "));
}

}  // namespace hydrac::runtime
