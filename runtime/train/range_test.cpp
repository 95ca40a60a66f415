#include "runtime/train/range_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/program/step_program.h"
#include "runtime/train/divergence.h"
#include "runtime/train/step_pipeline.h"

namespace hydrac::runtime {

namespace {

constexpr double kSmoothing = 0.9;  // a mean of about ten losses: half a decade of rates
constexpr int64_t kFirst = 10;      // before, the mean is of too few
constexpr double kDiverged = 4;     // times the lowest smoothed loss, as fast.ai ends its test
constexpr double kBelowLowest = 10;

// The mean of losses, weighted by kSmoothing to the power of their age.
class RunningMean {
 public:
  double add(double loss) {
    sum_ = kSmoothing * sum_ + (1 - kSmoothing) * loss;
    weight_ = kSmoothing * weight_ + (1 - kSmoothing);
    return sum_ / weight_;
  }

 private:
  double sum_ = 0, weight_ = 0;
};

DecimalRate rate_of(const RangeTestOptions& options, int64_t index) {
  const double share =
      static_cast<double>(index) / static_cast<double>(std::max<int64_t>(1, options.steps - 1));
  return decimal_rate(options.lowest * std::pow(options.highest / options.lowest, share));
}

// The loss of a step with this rate; nullopt where 50 in a row were skipped.
std::optional<double> loss_of_step(StepProgram& program, StepPipeline& pipeline, const DecimalRate& rate) {
  set_learning_rate(program, rate, false);
  for (int64_t skipped = 0; skipped < kMostSkippedInARow; ++skipped) {
    pipeline.begin();
    const StepResult result = pipeline.finish().result;
    if (!result.skipped) return static_cast<double>(result.loss);
  }
  return std::nullopt;
}

// The point with the lowest smoothed loss; null if it falls nowhere.
const RangePoint* lowest_of(std::span<const RangePoint> points) {
  const auto lowest = std::ranges::min_element(points, {}, &RangePoint::smoothed);
  return lowest - points.begin() > kFirst ? &*lowest : nullptr;
}

const StatePlaces& found_rate(const StepProgram& program) {
  const StatePlaces& state = program.ports().state;
  if (!state.rate_digits) throw std::logic_error("the program's learning rate is its spec's");
  return state;
}

}  // namespace

DecimalRate learning_rate(StepProgram& program) {
  const StatePlaces& state = found_rate(program);
  return {program.read_as<float>(state.rate_digits)[0], program.read_as<float>(state.rate_unit)[0]};
}

void set_learning_rate(StepProgram& program, const DecimalRate& rate, bool scheduled) {
  const StatePlaces& state = found_rate(program);
  const float trial = scheduled ? 0 : 1;
  const PortBytes ports[] = {port_bytes(state.rate_digits, std::span(&rate.digits, 1)),
                             port_bytes(state.rate_unit, std::span(&rate.unit, 1)),
                             port_bytes(state.rate_trial, std::span(&trial, 1))};
  program.write_ports(ports);
}

RangeTest range_test(StepProgram& program, StepPipeline& pipeline, const RangeTestOptions& options,
                     const std::function<bool()>& goes_on) {
  RangeTest test;
  RunningMean mean;
  double lowest = 0;
  for (int64_t i = 0; i < options.steps; ++i) {
    if ((test.stopped = !goes_on())) return test;
    const DecimalRate rate = rate_of(options, i);
    const std::optional<double> loss = loss_of_step(program, pipeline, rate);
    if (!loss || !std::isfinite(*loss)) break;
    const RangePoint& point = test.points.emplace_back(RangePoint{rate, *loss, mean.add(*loss)});
    lowest = i == 0 ? point.smoothed : std::min(lowest, point.smoothed);
    if (point.smoothed - lowest > (kDiverged - 1) * std::abs(lowest)) break;
  }
  test.chosen = choose_rate(test.points);
  return test;
}

std::optional<DecimalRate> choose_rate(std::span<const RangePoint> points) {
  const RangePoint* lowest = lowest_of(points);
  return lowest ? std::optional(decimal_rate(lowest->rate.value() / kBelowLowest, 2)) : std::nullopt;
}

std::string describe(const RangeTest& test) {
  const RangePoint* lowest = lowest_of(test.points);
  if (!lowest) return fmt::format("{} steps, in which the loss did not fall", test.points.size());
  return fmt::format("{} steps, in which the smoothed loss fell from {:.4g} to its lowest, {:.4g} at {}",
                     test.points.size(), test.points.front().smoothed, lowest->smoothed,
                     lowest->rate.value());
}

std::string range_test_json(const RangeTest& test) {
  nlohmann::ordered_json json;
  if (test.chosen) json["learning_rate"] = test.chosen->value();
  nlohmann::ordered_json& points = json["points"] = nlohmann::ordered_json::array();
  for (const RangePoint& point : test.points)
    points.push_back(
        {{"learning_rate", point.rate.value()}, {"loss", point.loss}, {"smoothed", point.smoothed}});
  return json.dump(1) + "\n";
}

}  // namespace hydrac::runtime
