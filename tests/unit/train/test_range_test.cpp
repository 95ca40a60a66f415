// The range test: what it chooses, and that it leaves no trace but the rate.
#include <gtest/gtest.h>

#include <csignal>

#include "runtime/train/run/run_files.h"
#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::slurp;
using test::TempDir;

constexpr int64_t kSteps = 61;

FakeProgram searching() {
  FakeProgram program;
  program.found_rate = DecimalRate{1, 100};
  return program;
}

TrainOptions with_range_test(const std::filesystem::path& run_dir) {
  TrainOptions options = small_run(run_dir);
  options.range_test = {1e-4, 1e2, kSteps};
  return options;
}

// A loss that falls to 1 where the rate is 0.1, and rises again.
std::vector<RangePoint> valley() {
  std::vector<RangePoint> points;
  for (int i = 0; i <= 40; ++i) {
    const double loss = 1 + std::abs(i - 20) * 0.1;
    points.push_back({decimal_rate(1e-3 * std::pow(10, i / 10.0)), loss, loss});
  }
  return points;
}

TEST(RangeTest, ChoosesATenthOfTheRateWithTheLowestLoss) {
  EXPECT_EQ(choose_rate(valley()), (DecimalRate{10, 1000}));
  std::vector<RangePoint> points = valley();
  for (RangePoint& point : points) point.smoothed -= 10;
  EXPECT_EQ(choose_rate(points), (DecimalRate{10, 1000})) << "whatever the loss's sign";
}

TEST(RangeTest, ChoosesNothingWhereTheLossOnlyRises) {
  const std::vector<RangePoint> points = valley();
  EXPECT_EQ(choose_rate(std::span(points).subspan(20)), std::nullopt);
  EXPECT_EQ(choose_rate(std::span(points).subspan(11)), std::nullopt)
      << "before ten points the mean is of too few";
  EXPECT_EQ(choose_rate({}), std::nullopt);
}

TEST(DecimalRate, IsTheNumberThatItsDigitsAreInASpec) {
  EXPECT_EQ(decimal_rate(3e-4), (DecimalRate{300, 1e6}));
  for (const double rate : {3e-4, 1e-4, 0.1, 6.7e-4, 1.2e-5, 9.9e-8, 57.0, 100.0})
    EXPECT_EQ(decimal_rate(rate).value(), rate);
  EXPECT_EQ(decimal_rate(0.123456, 2).value(), 0.12);
  EXPECT_EQ(decimal_rate(9.96e-4, 2).value(), 1e-3);
}

TEST(RangeTest, TrainingAfterItIsTrainingWithItsRateFromTheBeginning) {
  const TempDir dir;
  const TrainOptions options = with_range_test(dir / "found");
  FakeProgram found = searching();
  train(found, std::make_shared<FakeLoader>(), options);
  const DecimalRate rate = *found.found_rate;
  ASSERT_GT(rate.value(), 1e-4);
  ASSERT_LT(rate.value(), 10);
  ASSERT_GT(found.rates.size(), 12u);
  EXPECT_EQ(found.rates.front(), 1e-4) << "the schedule is left out";
  EXPECT_EQ(found.rates.back(), rate.value() / 2) << "and is there again";
  for (size_t i = 1; i + 12 < found.rates.size(); ++i)
    EXPECT_NEAR(found.rates[i] / found.rates[i - 1], std::pow(10, 0.1), 0.01);

  // As if a spec said the number: the rate of the first step is there before it begins.
  TrainOptions fixed = small_run(dir / "fixed");
  FakeProgram program = searching();
  program.in_update = [&](int64_t step) {
    if (step == 1) program.found_rate = rate;
  };
  train(program, std::make_shared<FakeLoader>(), fixed);
  expect_same_end(dir / "found", dir / "fixed");
}

TEST(RangeTest, AResumedRunKeepsTheRateWithoutAnotherTest) {
  const TempDir dir;
  TrainOptions options = with_range_test(dir / "whole");
  run(options, searching());
  options.run_dir = dir / "parts";
  options.max_steps = 5;
  run(options, searching());
  options.max_steps = 12;
  options.resume = Resume::required;
  FakeProgram rest = searching();
  train(rest, std::make_shared<FakeLoader>(), options);
  EXPECT_EQ(rest.rates.size(), 7u);
  EXPECT_EQ(checkpoint_contents(dir / "whole", 12), checkpoint_contents(dir / "parts", 12));
  EXPECT_EQ(slurp(range_test_path(dir / "whole")), slurp(range_test_path(dir / "parts")));
}

TEST(RangeTest, SkippedStepsTryTheirRateAgain) {
  const TempDir dir;
  FakeProgram program = searching();
  program.scales = true;
  program.overflows = {1, 2, 5};
  TrainOptions options = with_range_test(dir / "run");
  train(program, std::make_shared<FakeLoader>(), options);
  EXPECT_EQ(program.rates[0], program.rates[2]);
  EXPECT_LT(program.rates[2], program.rates[3]);
  EXPECT_EQ(program.rates[4], program.rates[5]);
  const auto json = nlohmann::json::parse(slurp(range_test_path(dir / "run")));
  EXPECT_EQ(json["points"][1]["learning_rate"], program.rates[3]);
}

TEST(RangeTest, SaysSoWhereNoRateHelps) {
  const TempDir dir;
  TrainOptions options = with_range_test(dir / "run");
  options.range_test = {1e3, 1e6, kSteps};
  EXPECT_EQ(message_of<RunError>([&] { run(options, searching()); }),
            "the range test found no learning rate with which the loss falls; write a number as "
            "train.optimizer.learning_rate");
  EXPECT_TRUE(std::filesystem::exists(range_test_path(dir / "run")));
}

TEST(RangeTest, AStoppedOneLeavesARunThatBeginsAnew) {
  const TempDir dir;
  TrainOptions options = with_range_test(dir / "run");
  FakeProgram program = searching();
  program.in_update = [](int64_t step) {
    if (step == 20) ::raise(SIGTERM);
  };
  const TrainReport stopped = run(options, std::move(program));
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.last_step, 0);
  options.resume = Resume::if_possible;
  run(options, searching());
  options.run_dir = dir / "whole";
  run(options, searching());
  expect_same_end(dir / "run", dir / "whole");
}

TEST(RangeTest, AProgramWithARateOfItsOwnHasNoneToFind) {
  FakeProgram program;
  EXPECT_THROW(set_learning_rate(program, {1, 10}, true), std::logic_error);
}

}  // namespace
}  // namespace hydrac::runtime
