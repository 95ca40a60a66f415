// The learning rate range test (Smith, arXiv 1506.01186): before training, steps with growing learning rates
// show at which the loss falls and at which it diverges.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/program/decimal_rate.h"

namespace hydrac::runtime {

class StepPipeline;
class StepProgram;

struct RangeTestOptions {
  double lowest = 0, highest = 0;  // learning rates of the first and the last step
  int64_t steps = 0;               // at most so many; 0: no range test
};

struct RangePoint {
  DecimalRate rate;
  double loss = 0;      // of the step that took this rate, before its update
  double smoothed = 0;  // running mean of the losses so far
};

struct RangeTest {
  std::vector<RangePoint> points;     // in order of their rates
  std::optional<DecimalRate> chosen;  // none: the loss falls nowhere
  bool stopped = false;               // by `goes_on`: nothing is chosen
};

// The learning rate of a program whose rate the test finds, a part of the optimizer's state; std::logic_error
// for other programs. `scheduled`: each step applies the schedule to it.
DecimalRate learning_rate(StepProgram& program);
void set_learning_rate(StepProgram& program, const DecimalRate& rate, bool scheduled);

// Takes steps, each with the previous rate times a constant factor, until the loss diverges. A step that loss
// scaling skips does not count, and its rate is tried again. `program` must be freshly initialized, and must
// be initialized again afterwards; `pipeline` must be at step 0. `goes_on` is asked before each step. The
// program's RunErrors.
RangeTest range_test(StepProgram& program, StepPipeline& pipeline, const RangeTestOptions& options,
                     const std::function<bool()>& goes_on);

// A tenth of the rate at which the smoothed loss is lowest, with two digits: fast.ai's rule (lr_find's
// "minimum"). Its other rule, the steepest fall, gives far too low rates if the first thing to learn is
// mostly the means of a few outputs. nullopt if the smoothed loss never falls.
std::optional<DecimalRate> choose_rate(std::span<const RangePoint> points);

// "121 steps, in which the smoothed loss fell from 4.17 to its lowest, 2.61 at 0.021".
std::string describe(const RangeTest& test);

// range_test.json of a run's folder, for `hydrac report`.
std::string range_test_json(const RangeTest& test);

}  // namespace hydrac::runtime
