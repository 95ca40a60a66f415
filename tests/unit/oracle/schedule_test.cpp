#include "oracle/job/schedule.h"

#include <gtest/gtest.h>

namespace hydrac::oracle {
namespace {

double factor(const std::string& name, std::int64_t step) {
  const std::int64_t decay_steps = name == "wsd" ? 5 : 10;
  return learning_rate_factor({name, /*warmup_steps=*/4, /*max_steps=*/14, decay_steps, /*min_ratio=*/0.2},
                              step);
}

TEST(Schedule, WarmsUpLinearlyToOne) {
  for (const char* name : {"constant", "linear", "cosine", "wsd"}) {
    EXPECT_DOUBLE_EQ(factor(name, 0), 0.25) << name;
    EXPECT_DOUBLE_EQ(factor(name, 3), 1.0) << name;
  }
}

TEST(Schedule, FollowsItsShapeToTheRatio) {
  EXPECT_DOUBLE_EQ(factor("constant", 13), 1.0);
  EXPECT_DOUBLE_EQ(factor("linear", 4), 0.92);
  EXPECT_DOUBLE_EQ(factor("linear", 8), 0.6);
  EXPECT_DOUBLE_EQ(factor("linear", 13), 0.2);
  EXPECT_DOUBLE_EQ(factor("cosine", 8), 0.6);
  EXPECT_NEAR(factor("cosine", 4), 0.2 + 0.4 * (1 + 0.95105651629515357), 1e-15);
  EXPECT_DOUBLE_EQ(factor("cosine", 13), 0.2);
}

TEST(Schedule, WsdStaysUntilItsDecay) {
  EXPECT_DOUBLE_EQ(factor("wsd", 8), 1.0);
  EXPECT_DOUBLE_EQ(factor("wsd", 9), 1 - 0.8 / 5);
  EXPECT_DOUBLE_EQ(factor("wsd", 13), 0.2);
}

TEST(Schedule, WsdDecaysInOneStepOrNever) {
  EXPECT_DOUBLE_EQ(learning_rate_factor({"wsd", 0, 14, 1, 0.2}, 12), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_factor({"wsd", 0, 14, 1, 0.2}, 13), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_factor({"wsd", 0, 14, 0, 0.2}, 13), 1.0);
}

TEST(Schedule, EndsItsDecayBeforeTheRunWhereItIsShorter) {
  for (const char* name : {"linear", "cosine"}) {
    EXPECT_DOUBLE_EQ(learning_rate_factor({name, 4, 14, 6, 0.2}, 6), 0.6) << name;
    EXPECT_DOUBLE_EQ(learning_rate_factor({name, 4, 14, 6, 0.2}, 9), 0.2) << name;
    EXPECT_DOUBLE_EQ(learning_rate_factor({name, 4, 14, 6, 0.2}, 13), 0.2) << name;
  }
}

TEST(Schedule, StaysAtTheRatioBeyondTheEnd) {
  EXPECT_DOUBLE_EQ(factor("linear", 99), 0.2);
  EXPECT_DOUBLE_EQ(factor("cosine", 99), 0.2);
  EXPECT_DOUBLE_EQ(factor("wsd", 99), 0.2);
}

TEST(Schedule, FollowsTheLossDownToTheRatio) {
  ScheduleSpec schedule{"adaptive", /*warmup_steps=*/1, /*max_steps=*/20};
  schedule.min_ratio = 0.4;
  schedule.patience = 2;
  schedule.threshold = 0.1;
  schedule.factor = 0.5;
  AdaptedShare adapted(schedule);
  std::vector<double> shares;
  // Warmup, then the means 5, 4, 3.7 (not a tenth lower), 4, 3.
  for (std::int64_t step = 0; const double loss : {1.0, 6.0, 4.0, 4.0, 4.0, 3.7, 3.7, 3.0, 5.0, 3.0, 3.0}) {
    shares.push_back(learning_rate_factor(schedule, step, adapted.share()));
    adapted.see(step++, loss);
  }
  EXPECT_EQ(shares, (std::vector<double>{1, 1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.4, 0.4}));
}

TEST(Schedule, IsAFunctionAfterWarmup) {
  ScheduleSpec schedule{"function", /*warmup_steps=*/4, /*max_steps=*/14};
  schedule.function = Expression{2, {{"argument", 0, {}}, {"argument", 1, {}}, {"div", 0, {0, 1}}}, 2};
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 1), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 7), 0.5);
}

}  // namespace
}  // namespace hydrac::oracle
