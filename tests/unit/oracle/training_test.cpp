// Whole steps against loops by hand: loss = sum over i of x_i * p_i, so that the gradient of p is x.
#include <gtest/gtest.h>

#include <cmath>

#include "job_folder.h"
#include "oracle/job/quantize.h"
#include "oracle/job/random.h"
#include "small_model.h"

namespace hydrac::oracle {
namespace {

constexpr int kSteps = 3;

class Training : public ::testing::Test {
 protected:
  Training() {
    x = job.input("x", {1, 2}, {0, 0});
    for (int step = 0; step < kSteps; ++step) job.input_at(x, step, 0, gradients[step]);
    const int p = job.parameter("p", {1, 2}, start);
    job.sum_as_loss(job.node("linear", nlohmann::json::object(), {x, p, kLeftOut}, {1, 1}));
    job.root()["steps"] = kSteps;
  }

  void expect_parameters(const Numbers& expected) {
    const Outcome outcome = job.write_and_run();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.status, (nlohmann::json{{"ok", true}}));
    for (int i = 0; i < 2; ++i) EXPECT_NEAR(outcome.at("param.p.0")[i], expected[i], 1e-14);
  }

  JobFolder job;
  int x = 0;
  const std::vector<Numbers> gradients = {{0.3, -4}, {-1, 2}, {0.5, 0.25}};
  const Numbers start = {1, -2};
};

TEST_F(Training, ReportsLossNormAndGradientByHand) {
  const Outcome outcome = job.write_and_run();
  EXPECT_EQ(outcome.shapes.at("loss.s0"), Shape{});
  EXPECT_NEAR(outcome.scalar("loss.s0"), 0.3 * 1 - 4 * -2, 1e-15);
  EXPECT_NEAR(outcome.scalar("grad_norm.s0"), std::sqrt(0.09 + 16), 1e-15);
  EXPECT_NEAR(outcome.scalar("grad_norm.s1"), std::sqrt(5.0), 1e-15);
  EXPECT_EQ(outcome.at("grad.p.0"), gradients[0]);
  EXPECT_EQ(outcome.shapes.at("grad.p.0"), (Shape{1, 2}));
  // After one step of plain descent at a rate of 0.1.
  EXPECT_NEAR(outcome.scalar("loss.s1"), -1 * (1 - 0.03) + 2 * (-2 + 0.4), 1e-15);
}

// Beside the run without noise, which does not change.
TEST_F(Training, NoisyGradientsAreOffByAShareOfTheirSizeWhereTheyAreNotZero) {
  constexpr int kCount = 1000;
  constexpr double kNoise = 0.01;
  JobFolder noisy;
  Numbers gradient(kCount, 2);
  for (int i = 0; i < kCount; i += 2) gradient[i] = 0;
  const int input = noisy.input("x", {1, kCount}, gradient);
  const int p = noisy.parameter("p", {1, kCount}, Numbers(kCount, 1));
  noisy.sum_as_loss(noisy.node("linear", nlohmann::json::object(), {input, p, kLeftOut}, {1, 1}));
  noisy.root()["optimizer"] = {{"name", "sgd"}, {"learning_rate", 1}, {"momentum", 0}, {"weight_decay", 0}};
  noisy.root()["gradient_noise"] = kNoise;
  const Outcome outcome = noisy.write_and_run();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.at("grad.p.0"), gradient);
  const Numbers &exact = outcome.at("param.p.0"), &other = outcome.at("noisy.param.p.0");
  double square = 0;
  for (int i = 0; i < kCount; ++i) {
    if (i % 2 == 0) {
      EXPECT_EQ(other[i], exact[i]);
    }
    square += (other[i] - exact[i]) * (other[i] - exact[i]);
  }
  const double size = std::sqrt(2.0 * 2.0 / 2);  // root mean square of the gradient
  EXPECT_NEAR(std::sqrt(square / (kCount / 2)), kNoise * size, 0.1 * kNoise * size);
  EXPECT_EQ(outcome.scalar("noisy.loss.s0"), outcome.scalar("loss.s0"));
}

TEST_F(Training, AdamwFollowsItsFormula) {
  job.root()["optimizer"] = {
      {"name", "adamw"}, {"learning_rate", 0.1}, {"betas", {0.8, 0.9}}, {"eps", 0.01}, {"weight_decay", 0.5}};
  job.root()["lr_scheduler"] = {
      {"name", "linear"}, {"warmup_steps", 1}, {"max_steps", 5}, {"min_ratio", 0.0}};
  job.root()["decay"] = {"p"};
  Numbers p = start, m = {0, 0}, v = {0, 0};
  for (int step = 0; step < kSteps; ++step) {
    const double rate = 0.1 * Numbers{1, 0.75, 0.5}[step];  // four steps of decay behind one of warmup
    for (int i = 0; i < 2; ++i) {
      const double g = gradients[step][i];
      m[i] = 0.8 * m[i] + 0.2 * g;
      v[i] = 0.9 * v[i] + 0.1 * g * g;
      const double m_hat = m[i] / (1 - std::pow(0.8, step + 1)), v_hat = v[i] / (1 - std::pow(0.9, step + 1));
      p[i] = p[i] * (1 - rate * 0.5) - rate * m_hat / (std::sqrt(v_hat) + 0.01);
    }
  }
  expect_parameters(p);
}

// One weight and one moment of 16 bits: rounded after each step with the noise of their places.
TEST_F(Training, RoundsWeightsAndMomentsStochastically) {
  job.root()["optimizer"] = {{"name", "sgd"}, {"learning_rate", 0.1}, {"momentum", 0.9}};
  job.root()["seed"] = 7;
  job.root()["rounding"] = {{"site", 5},
                            {"weights", 1},
                            {"moments", 1},
                            {"places", {{"p", {{"stream", 3}, {"first", 10}, {"stride", 0}}}}}};
  Numbers p = start, m = {0, 0};
  for (int step = 0; step < kSteps; ++step) {
    const std::uint32_t key = random_key(7, static_cast<std::uint32_t>(step), 5);
    for (int i = 0; i < 2; ++i) {
      m[i] = 0.9 * m[i] + gradients[step][i];
      p[i] = round_stochastically(p[i] - 0.1 * m[i], random_16_bits(key + 3, 10 + i));
      m[i] = round_stochastically(m[i], random_16_bits(key + 4, 10 + i));
    }
  }
  expect_parameters(p);
  job.root()["rounding"]["places"] = nlohmann::json::object();
  EXPECT_EQ(job.write_and_run().exit_code, 1);  // a parameter without a place
}

TEST_F(Training, QuantizesMomentsInBlocks) {
  job.root()["optimizer"] = {{"name", "sgd"}, {"learning_rate", 0.1}, {"momentum", 0.9}};
  for (const std::int64_t block : {1, 2}) {
    job.root()["quantized_state"] = {{"block", block}, {"parameters", {"p"}}};
    Numbers p = start, m = {0, 0};
    for (const Numbers& g : gradients) {
      for (int i = 0; i < 2; ++i) {
        m[i] = 0.9 * m[i] + g[i];
        p[i] -= 0.1 * m[i];
      }
      for (std::int64_t i = 0; i < 2; i += block) quantize_block(&m[i], block, true);
    }
    expect_parameters(p);
  }
  job.root()["quantized_state"] = {{"block", 2}, {"parameters", {"q"}}};
  EXPECT_EQ(job.write_and_run().exit_code, 1);
}

TEST_F(Training, LionFollowsItsFormula) {
  job.root()["optimizer"] = {
      {"name", "lion"}, {"learning_rate", 0.1}, {"betas", {0.6, 0.9}}, {"weight_decay", 0.5}};
  job.root()["decay"] = {"p"};
  Numbers p = start, m = {0, 0};
  for (const Numbers& g : gradients)
    for (int i = 0; i < 2; ++i) {
      const double direction = 0.6 * m[i] + 0.4 * g[i] > 0 ? 1 : -1;
      p[i] -= 0.1 * (direction + 0.5 * p[i]);
      m[i] = 0.9 * m[i] + 0.1 * g[i];
    }
  expect_parameters(p);
}

TEST_F(Training, SgdDecaysParametersBesideTheirMomentum) {
  job.root()["optimizer"] = {
      {"name", "sgd"}, {"learning_rate", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.5}};
  job.root()["decay"] = {"p"};
  Numbers p = start, buffer = {0, 0};
  for (const Numbers& g : gradients)
    for (int i = 0; i < 2; ++i) {
      buffer[i] = 0.9 * buffer[i] + g[i];
      p[i] = p[i] * (1 - 0.1 * 0.5) - 0.1 * buffer[i];
    }
  expect_parameters(p);
}

TEST_F(Training, DecaysOnlyWhatIsListed) {
  job.root()["optimizer"]["weight_decay"] = 0.5;
  expect_parameters({1 - 0.1 * (0.3 - 1 + 0.5), -2 - 0.1 * (-4 + 2 + 0.25)});
}

TEST_F(Training, ClipsByTheNormOfAllGradients) {
  job.root()["max_grad_norm"] = 1.0;
  Numbers p = start;
  for (const Numbers& g : gradients) {
    const double norm = std::hypot(g[0], g[1]);
    for (int i = 0; i < 2; ++i) p[i] -= 0.1 * g[i] * std::min(1.0, 1 / (norm + 1e-6));
  }
  expect_parameters(p);
}

TEST_F(Training, SumsMicroBatches) {
  job.root()["accumulation"] = 2;
  job.root()["steps"] = 1;
  job.input_at(x, 0, 1, {10, 20});
  const Outcome outcome = job.write_and_run();
  EXPECT_NEAR(outcome.scalar("loss.s0"), 8.3 + 10 - 40, 1e-14);
  EXPECT_EQ(outcome.at("grad.p.0"), (Numbers{10.3, 16}));
}

TEST_F(Training, ComputesInFloat32WhenAskedTo) {
  job.root()["dtype"] = "float32";
  EXPECT_EQ(job.write_and_run().at("grad.p.0"), (Numbers{0.3f, -4}));
}

TEST(TrainingModel, RunsTwiceToTheSameBits) {
  JobFolder job;
  build_gpt(job);
  EXPECT_EQ(job.write_and_run().values, job.write_and_run().values);
}

}  // namespace
}  // namespace hydrac::oracle
