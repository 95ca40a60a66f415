// The learning rate of a step: schedules, one that follows the loss, one that a range test found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "optimizer_reference.h"
#include "own_functions.h"
#include "small_models.h"

namespace hydrac::test {
namespace {

double rate_at(const std::string& scheduler, int step) {
  const SmallModel small(
      small_spec(kModel,
                 "sequence_len: 4, micro_batch_size: 1, optimizer: {learning_rate: 2}, lr_scheduler: {" +
                     scheduler + "}"),
      {.all_functions = true});
  Interpreter interpreter(small.graph);
  interpreter.write({small.graph.find("step"), {}}, {static_cast<double>(step)});
  interpreter.run("update");
  EXPECT_EQ(interpreter.read_scalar(small.graph.find("step")), step + 1);
  return interpreter.read_scalar(small.graph.results.learning_rate);
}

// 100 steps in all.
TEST(Schedule, WarmsUpAndDecays) {
  EXPECT_DOUBLE_EQ(rate_at("name: constant, warmup_steps: 10", 0), 2 * 0.1);
  EXPECT_DOUBLE_EQ(rate_at("name: constant, warmup_steps: 10", 9), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: constant, warmup_steps: 10", 99), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: linear, warmup_steps: 20, min_ratio: 0.1", 19), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: linear, warmup_steps: 20, min_ratio: 0.1", 20), 2 * (1 - 0.9 / 80));
  EXPECT_DOUBLE_EQ(rate_at("name: linear, warmup_steps: 20, min_ratio: 0.1", 59), 2 * (1 - 0.9 * 0.5));
  EXPECT_NEAR(rate_at("name: cosine, warmup_steps: 20, min_ratio: 0.1", 39),
              2 * (0.1 + 0.9 * (1 + std::cos(std::numbers::pi / 4)) / 2), 1e-14);
  EXPECT_NEAR(rate_at("name: cosine, decay_steps: 50, min_ratio: 0.1", 80), 0.2, 1e-14);
  EXPECT_DOUBLE_EQ(rate_at("name: wsd, min_ratio: 0, decay_steps: 20", 79), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: wsd, min_ratio: 0, decay_steps: 20", 89), 1);
}

// The rates of steps with these losses.
std::vector<double> adapted_rates(const std::string& scheduler, const std::vector<double>& losses) {
  const SmallModel small(small_spec(kModel,
                                    "sequence_len: 4, micro_batch_size: 1, optimizer: {learning_rate: 2}, "
                                    "lr_scheduler: {name: adaptive, " +
                                        scheduler + "}"),
                         {.all_functions = true});
  Interpreter interpreter(small.graph);
  std::vector<double> rates;
  for (const double loss : losses) {
    interpreter.write({small.model->graph.results.loss, {}}, {loss});
    interpreter.run("update");
    rates.push_back(interpreter.read_scalar(small.graph.results.learning_rate));
  }
  return rates;
}

using Rates = std::vector<double>;

TEST(AdaptiveRate, IsCutWhereAMeanLossHasNotFallen) {
  const std::string scheduler = "patience: 2, threshold: 0.1, factor: 0.5, min_ratio: 0.2";
  // Means 5, 4, 3.7 (not a tenth lower), 3.3, 4, 3 (of which 3.3 is the best before): two cuts, then falling.
  EXPECT_EQ(adapted_rates(scheduler, {6, 4, 4, 4, 3.7, 3.7, 3.2, 3.4, 3, 5, 2.9, 2.9, 0, 0}),
            (Rates{2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5}));
}

TEST(AdaptiveRate, EndsAtTheRatioAndCountsAfterWarmup) {
  EXPECT_EQ(adapted_rates("patience: 1, factor: 0.5, min_ratio: 0.4, warmup_steps: 2", {1, 1, 5, 5, 5, 5}),
            (Rates{1, 2, 2, 2, 1, 0.8}));
  EXPECT_EQ(adapted_rates("patience: 1, factor: 0, min_ratio: 0", {1, 2, 1}), (Rates{2, 2, 0}));
}

TEST(AdaptiveRate, ComparesNegativeLossesAndLeavesOutWhatIsNotFinite) {
  EXPECT_EQ(adapted_rates("patience: 1, threshold: 0.1, min_ratio: 0", {-10, -12, -12.5, -20}),
            (Rates{2, 2, 2, 1}));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(adapted_rates("patience: 2, threshold: 0, min_ratio: 0", {4, inf, 3, 3, 2, 2}),
            (Rates{2, 2, 2, 2, 2, 2}));
}

TEST(AdaptiveRate, LeavesOutWhatIsNotFiniteInTheFirstStepAfterWarmupToo) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::string by_two = "patience: 2, threshold: 0, min_ratio: 0, warmup_steps: 1";
  // Means 4, 3, 2: were the first loss 0, 3 would not be below 2.
  EXPECT_EQ(adapted_rates(by_two, {9, inf, 4, 3, 3, 2, 2, 2}), (Rates{2, 2, 2, 2, 2, 2, 2, 2}));
  // A mean of no loss decides nothing: then the next is the first.
  EXPECT_EQ(adapted_rates(by_two, {9, inf, nan, 4, 4, 3, 3, 3, 3, 3}), (Rates{2, 2, 2, 2, 2, 2, 2, 2, 2, 1}));
  // In a later window, where the best so far is no loss of it: means 4, 5 (cut), none, 3.
  EXPECT_EQ(adapted_rates(by_two, {9, 4, 4, inf, 5, nan, inf, 3, 3, 3}),
            (Rates{2, 2, 2, 2, 2, 1, 1, 1, 1, 1}));
  EXPECT_EQ(adapted_rates("patience: 1, threshold: 0, min_ratio: 0", {inf, 4, 3, 3, 3}),
            (Rates{2, 2, 2, 2, 1}));
}

// digits / unit in float64 is the number that a spec says, and the schedule makes the same of both, bit for
// bit.
TEST(FoundRate, IsThatOfASpecWithTheNumber) {
  for (const std::string scheduler :
       {"name: cosine, warmup_steps: 7, min_ratio: 0.1", "name: linear", "name: wsd",
        "name: constant, warmup_steps: 3", "name: adaptive", "name: " OWN_CURVE}) {
    const auto rates = [&](const std::string& rate) {
      const SmallModel small(
          small_spec(kModel, "sequence_len: 4, micro_batch_size: 1, optimizer: {learning_rate: " + rate +
                                 "}, lr_scheduler: {" + scheduler + "}"),
          {.all_functions = true});
      Interpreter interpreter(small.graph);
      const auto write = [&](const char* name, double x) {
        interpreter.write({small.graph.find(name), {}}, {x});
      };
      if (rate == "auto") {
        write("learning_rate.digits", 67);
        write("learning_rate.unit", 1e5);
      }
      std::vector<double> found;
      for (const double step : {0, 1, 5, 20, 99}) {
        write("step", step);
        interpreter.run("update");
        found.push_back(interpreter.read_scalar(small.graph.results.learning_rate));
      }
      return found;
    };
    EXPECT_EQ(rates("auto"), rates("6.7e-4")) << scheduler;
  }
}

TEST(FoundRate, IsTakenAsItIsInARangeTest) {
  const SmallModel small(small_spec(kModel,
                                    "sequence_len: 4, micro_batch_size: 1, optimizer: {learning_rate: auto}, "
                                    "lr_scheduler: {name: cosine, warmup_steps: 10}"),
                         {.all_functions = true});
  Interpreter interpreter(small.graph);
  for (const auto& [name, x] : {std::pair("digits", 5.0), {"unit", 100.0}, {"trial", 1.0}})
    interpreter.write({small.graph.find(std::string("learning_rate.") + name), {}}, {x});
  for (int step = 0; step < 3; ++step) {
    interpreter.run("update");
    EXPECT_EQ(interpreter.read_scalar(small.graph.results.learning_rate), 0.05);
  }
}

TEST(Schedule, EndsAtTheRatioExactly) {
  for (const std::string name : {"linear", "cosine", "wsd"}) {
    for (const double ratio : {0.0, 0.1, 0.3, 0.7, 1.0}) {
      const std::string scheduler = fmt::format("name: {}, min_ratio: {}", name, ratio);
      EXPECT_EQ(rate_at(scheduler, 99), 2 * ratio) << scheduler;
      EXPECT_EQ(rate_at(scheduler, 250), 2 * ratio) << scheduler;
      if (ratio < 1) {
        EXPECT_GT(rate_at(scheduler, 98), 2 * ratio) << scheduler;
      }
    }
  }
}

TEST(Schedule, OfOneStepIsItsLast) {
  EXPECT_EQ(rate_at("name: wsd, min_ratio: 0.1, decay_steps: 1", 98), 2);
  EXPECT_EQ(rate_at("name: wsd, min_ratio: 0.1, decay_steps: 1", 99), 0.2);
  EXPECT_EQ(rate_at("name: wsd, min_ratio: 0.1, decay_steps: 0", 99), 2);
  EXPECT_EQ(rate_at("name: linear, warmup_steps: 99, min_ratio: 0.1", 98), 2);
  EXPECT_EQ(rate_at("name: linear, warmup_steps: 99, min_ratio: 0.1", 99), 0.2);
}

TEST(Schedule, IsAFunctionOfTheUsers) {
  const std::string stairs = "name: " OWN_CURVE;
  EXPECT_DOUBLE_EQ(rate_at(stairs, 0), 2);
  EXPECT_DOUBLE_EQ(rate_at(stairs, 12), 2);
  EXPECT_DOUBLE_EQ(rate_at(stairs, 13), 1);
  EXPECT_DOUBLE_EQ(rate_at(stairs, 99), 2 * std::pow(0.5, 7));
  EXPECT_DOUBLE_EQ(rate_at(stairs + ", warmup_steps: 20", 9), 1);
  EXPECT_DOUBLE_EQ(rate_at(stairs + ", warmup_steps: 20", 25), 0.5);
  EXPECT_NEAR(rate_at("name: " OWN_FLOAT_CURVE, 40), 2 * std::pow(0.5, 3), 1e-7);
}

}  // namespace
}  // namespace hydrac::test
