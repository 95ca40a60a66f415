// A linear layer with matmuls of 8 bits under autocast: which rounding belongs to which of its three matmuls,
// and how scales follow the steps before.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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

// One head, two positions, one element a head: its result from operands and probabilities of 8 bits, and the
// gradients that a backward pass in 16 bits makes of that result.
TEST_F(Fp8, AttentionRoundsItsForwardPassAlone) {
  using Numbers = std::vector<double>;
  const Numbers q = {0.31, 1.7}, k = {0.83, -1.21}, v = {0.57, -0.77};
  const int heads[] = {job_.parameter("q", {1, 2, 1, 1}, q), job_.parameter("k", {1, 2, 1, 1}, k),
                       job_.parameter("v", {1, 2, 1, 1}, v)};
  const int mixed = job_.node("attention", {{"causal", false}, {"scale", 1.0}, {"fp8", {{"forward", true}}}},
                              {heads[0], heads[1], heads[2], kLeftOut}, {1, 2, 1, 1});
  job_.sum_as_loss(mixed, 0.9);
  job_.root()["autocast"] = "bf16";
  const Outcome outcome = job_.write_and_run();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const double back = to_bf16(0.9), key_scale = 448 / to_bf16(1.21), value_scale = 448 / to_bf16(0.77);
  Numbers dq(2), dk(2), dv(2);
  double loss = 0;
  for (int i = 0; i < 2; ++i) {
    double score[2], sum = 0, out = 0;
    for (int j = 0; j < 2; ++j) score[j] = to_bf16(q[i]) * e4m3(to_bf16(k[j]), key_scale);
    const double top = std::max(score[0], score[1]);
    for (int j = 0; j < 2; ++j) {
      const double weight = std::exp(score[j] - top) * std::exp2(5.8);
      sum += weight, out += e4m3(weight, 1) * e4m3(to_bf16(v[j]), value_scale);
    }
    const double lse = top + std::log(sum / std::exp2(5.8)), result = to_bf16(out / sum);
    loss += 0.9 * result;
    for (int j = 0; j < 2; ++j) {
      const double weight = std::exp(to_bf16(q[i]) * to_bf16(k[j]) - lse);
      const double d_score = to_bf16(weight * (back * to_bf16(v[j]) - back * result));
      dv[j] += to_bf16(weight) * back;
      dq[i] += d_score * to_bf16(k[j]);
      dk[j] += d_score * to_bf16(q[i]);
    }
  }
  EXPECT_NEAR(outcome.scalar("autocast.loss.s0"), loss, 1e-5);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(outcome.at("autocast.grad.q.0")[i], dq[i], 4e-3 * std::abs(dq[i]));
    EXPECT_NEAR(outcome.at("autocast.grad.k.0")[i], dk[i], 4e-3 * std::abs(dk[i]));
    EXPECT_NEAR(outcome.at("autocast.grad.v.0")[i], dv[i], 4e-3 * std::abs(dv[i]));
  }
}

}  // namespace
}  // namespace hydrac::oracle
