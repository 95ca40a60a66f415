// A linear layer with matmuls of 8 bits under autocast: which rounding belongs to which of its three matmuls,
// and how scales follow the steps before.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "job_folder.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

double nearest(double x, int digits, int least, double largest) {
  if (x == 0) return 0;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1, std::max(exponent - digits, least));
  return std::clamp(std::nearbyint(x / unit) * unit, -largest, largest);
}
double to_bf16(double x) {
  return nearest(x, 8, -133, 1e38);
}
double e4m3(double x, double scale) {
  return nearest(x * scale, 4, -9, 448) / scale;
}
double e5m2(double x, double scale) {
  return nearest(x * scale, 3, -16, 57344) / scale;
}

class Fp8 : public ::testing::Test {
 protected:
  // y = x w^T of one number each; the loss is 0.3 y. The gradient's scale starts at 4.
  Outcome run(bool forward, bool input_gradient, bool weight_gradient, int steps = 1) {
    x_ = job_.parameter("x", {1, 1}, {1.2345});
    w_ = job_.parameter("w", {1, 1}, {0.7071});
    const int y = job_.node("linear",
                            {{"fp8",
                              {{"forward", forward},
                               {"input_gradient", input_gradient},
                               {"weight_gradient", weight_gradient},
                               {"gradient_start", 4}}}},
                            {x_, w_, kLeftOut}, {1, 1});
    job_.sum_as_loss(y, 0.3);
    job_.root()["autocast"] = "bf16";
    job_.root()["steps"] = steps;
    job_.root()["optimizer"]["learning_rate"] = 0;
    const Outcome outcome = job_.write_and_run();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome;
  }

  static constexpr double kX = 1.2345, kW = 0.7071, kTolerance = 1e-6;
  // A weight's scale is exact: the largest number stands for it.
  const double w_read_ = e4m3(to_bf16(kW), 448 / to_bf16(kW)), d_y_ = to_bf16(0.3);
  JobFolder job_;
  int x_ = 0, w_ = 0;
};

TEST_F(Fp8, ForwardRoundsBothOperandsAndNoGradient) {
  const Outcome outcome = run(true, false, false);
  EXPECT_NEAR(outcome.scalar("autocast.loss.s0"), 0.3 * to_bf16(e4m3(to_bf16(kX), 16) * w_read_), kTolerance);
  EXPECT_NEAR(outcome.scalar("autocast.grad.x.0"), to_bf16(d_y_ * to_bf16(kW)), kTolerance);
  EXPECT_NEAR(outcome.scalar("autocast.grad.w.0"), to_bf16(d_y_ * to_bf16(kX)), kTolerance);
}

TEST_F(Fp8, InputGradientRoundsTheOutputsGradientAndTheWeight) {
  const Outcome outcome = run(false, true, false);
  EXPECT_NEAR(outcome.scalar("autocast.loss.s0"), 0.3 * to_bf16(to_bf16(kX) * to_bf16(kW)), kTolerance);
  EXPECT_NEAR(outcome.scalar("autocast.grad.x.0"), to_bf16(e5m2(d_y_, 4) * w_read_), kTolerance);
  EXPECT_NEAR(outcome.scalar("autocast.grad.w.0"), to_bf16(d_y_ * to_bf16(kX)), kTolerance);
}

TEST_F(Fp8, WeightGradientRoundsTheOutputsGradientAndTheInput) {
  const Outcome outcome = run(true, true, true);
  EXPECT_NEAR(outcome.scalar("autocast.grad.w.0"), to_bf16(e5m2(d_y_, 4) * e4m3(to_bf16(kX), 16)),
              kTolerance);
}

TEST_F(Fp8, LaterStepsScaleByWhatEarlierOnesHad) {
  const Outcome outcome = run(true, false, false, 2);
  EXPECT_NEAR(outcome.scalar("autocast.loss.s1"),
              0.3 * to_bf16(e4m3(to_bf16(kX), 448 / to_bf16(kX)) * w_read_), kTolerance);
  EXPECT_NEAR(outcome.scalar("autocast.loss.s1"), 0.3 * to_bf16(to_bf16(kX) * w_read_), kTolerance)
      << "exact";
}

}  // namespace
}  // namespace hydrac::oracle
