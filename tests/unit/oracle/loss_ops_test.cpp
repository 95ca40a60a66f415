// Losses, and the numbers of a whole batch that are added to them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "one_op.h"

namespace hydrac::oracle {
namespace {

TEST_F(OneOp, CrossEntropyCapsLogits) {
  const int logits = job.input("logits", {1, 2}, {3, -1});
  const int targets = job.integer_input("targets", {1}, {1});
  const double a = 2 * std::tanh(1.5), b = 2 * std::tanh(-0.5);
  expect_near(value("cross_entropy", {{"softcap", 2.0}}, {logits, targets}, {1}),
              {std::log(std::exp(a) + std::exp(b)) - b});
}

TEST_F(OneOp, CrossEntropySmoothsAndIgnores) {
  const int logits = job.input("logits", {3, 2}, {std::log(1.0), std::log(3.0), 5, 5, 0, std::log(4.0)});
  const int targets = job.integer_input("targets", {3}, {1, -100, 0});
  const double q1 = -std::log(0.25), q3 = -std::log(0.75), p1 = -std::log(0.2), p4 = -std::log(0.8);
  expect_near(
      value("cross_entropy", {{"label_smoothing", 0.2}, {"ignore_index", -100}}, {logits, targets}, {3}),
      {0.8 * q3 + 0.1 * (q1 + q3), 0, 0.8 * p1 + 0.1 * (p1 + p4)});
}

TEST_F(OneOp, MeanLossMultipliesTheSumByTheInverseCount) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4}), inverse = job.input("inv", {1}, {0.25});
  expect_near(value("mean_loss", kNone, {rows, inverse}, {}), {2.5});
}

TEST_F(OneOp, MeanLossOfWeightedRows) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4}), inverse = job.input("inv", {1}, {0.5});
  const int weights = job.input("weights", {2, 2}, {1, 0, -1, 2});
  expect_near(value("mean_loss", kNone, {rows, inverse, weights}, {}), {3});
}

TEST_F(OneOp, AuxiliaryLossIsTheWeightedSum) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4});
  expect_near(value("auxiliary_loss", {{"weight", 0.5}, {"warmup_steps", 0}}, {rows, kLeftOut}, {}), {5});
}

TEST_F(OneOp, AuxiliaryLossGrowsWithTheSteps) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4}), step = job.integer_input("step", {}, {2});
  expect_near(value("auxiliary_loss", {{"weight", 0.5}, {"warmup_steps", 6}}, {rows, step}, {}), {2.5});
}

TEST_F(OneOp, AuxiliaryLossIsWholeBehindItsWarmup) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4}), step = job.integer_input("step", {}, {2});
  expect_near(value("auxiliary_loss", {{"weight", 0.5}, {"warmup_steps", 2}}, {rows, step}, {}), {5});
}

// Vectors at angles of 60, 90 and 150 degrees to each other, of any length; and equal ones.
TEST_F(OneOp, PairwiseCosineDistanceIsTheMeanOverPairs) {
  const int x = job.parameter("x", {2, 3, 2}, {2, 0, 0.5, std::sqrt(0.75), 0, 3, 1, 1, 2, 2, 3, 3});
  const double half = 0.5, root = std::sqrt(0.75);
  expect_near(value("pairwise_cosine_distance", {{"eps", 0.0}}, {x}, {2}), {1 - (half + root + 0) / 3, 0});
}

TEST_F(OneOp, MseIgnoresMissingTargets) {
  const double missing = std::numeric_limits<double>::quiet_NaN();
  const int x = job.parameter("x", {2, 2}, {1, 2, 3, 4});
  const int targets = job.input("targets", {2, 2}, {0, 0, missing, 2});
  expect_near(value("mse", kNone, {x, targets}, {2}), {2.5, 2});
  expect_near(outcome.at("grad.x.0"), {1, 2, 0, 2});
}

}  // namespace
}  // namespace hydrac::oracle
