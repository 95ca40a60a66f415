// The second run that a job with "autocast" asks for: what is rounded, what is not, and that the first run
// does not change.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "job_folder.h"
#include "small_model.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

// To `bits` significant bits, ties to even: 8 for bf16, 11 for fp16 in its normal range.
double rounded(double x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}
double bf16(double x) {
  return rounded(x, 8);
}

double relative_error(const Numbers& x, const Numbers& reference) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += (x[i] - reference[i]) * (x[i] - reference[i]);
    size += reference[i] * reference[i];
  }
  return std::sqrt(error / size);
}

class Autocast : public ::testing::Test {
 protected:
  Outcome run(const std::string& type) {
    job.root()["autocast"] = type;
    const Outcome outcome = job.write_and_run();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome;
  }
  void dump(int id) { job.root()["dump"].push_back(job.root()["graph"]["values"][id]["name"]); }
  std::string activation(int id) const {
    return "act." + job.root()["graph"]["values"][id]["name"].get<std::string>() + ".0";
  }

  mutable JobFolder job;
};

TEST_F(Autocast, LinearRoundsItsInputsItsResultAndItsGradients) {
  const double a = 1.01, b = 0.337, w = 1.003, v = -0.71;
  const int x = job.parameter("x", {1, 2}, {a, b});
  const int weight = job.parameter("w", {1, 2}, {w, v});
  const int y = job.node("linear", kNone, {x, weight, kLeftOut}, {1, 1});
  job.sum_as_loss(y, 0.123);
  dump(y);
  const Outcome outcome = run("bf16");
  // Float32 keeps 24 bits, so sums and matmuls before the last rounding need tolerance.
  const double sum = bf16(a) * bf16(w) + bf16(b) * bf16(v);
  EXPECT_EQ(outcome.at("autocast." + activation(y)), (Numbers{bf16(sum)}));
  EXPECT_NEAR(outcome.scalar("autocast.loss.s0"), bf16(sum) * 0.123, 1e-7);
  const double back = bf16(0.123);
  EXPECT_EQ(outcome.at("autocast.grad.x.0"), (Numbers{bf16(back * bf16(w)), bf16(back * bf16(v))}));
  EXPECT_EQ(outcome.at("autocast.grad.w.0"), (Numbers{bf16(back * bf16(a)), bf16(back * bf16(b))}));
  EXPECT_DOUBLE_EQ(outcome.scalar("loss.s0"), (a * w + b * v) * 0.123);
}

TEST_F(Autocast, Fp16KeepsElevenBits) {
  const int x = job.input("x", {1, 1}, {1.2345});
  const int w = job.parameter("w", {1, 1}, {0.9876});
  const int y = job.node("linear", kNone, {x, w, kLeftOut}, {1, 1});
  job.sum_as_loss(y);
  dump(y);
  EXPECT_EQ(run("fp16").at("autocast." + activation(y)),
            (Numbers{rounded(rounded(1.2345, 11) * rounded(0.9876, 11), 11)}));
}

// What comes out of a matmul is 16 bits wide; what is added to a float32 residual is not rounded again.
TEST_F(Autocast, ResidualsStayInFloat32) {
  const double r = 1.2345678;
  const int x = job.input("x", {1, 1}, {0.5});
  const int w = job.parameter("w", {1, 1}, {0.3});
  const int residual = job.parameter("residual", {1, 1}, {r});
  const int branch = job.node("linear", kNone, {x, w, kLeftOut}, {1, 1});
  const int act = job.node("silu", kNone, {branch}, {1, 1});
  const int sum = job.node("add", kNone, {residual, act}, {1, 1});
  job.sum_as_loss(sum);
  dump(act);
  dump(sum);
  const Outcome outcome = run("bf16");
  const double in = bf16(0.5 * bf16(0.3)), kept = bf16(in / (1 + std::exp(-in)));
  EXPECT_EQ(outcome.at("autocast." + activation(act)), (Numbers{kept}));
  EXPECT_EQ(outcome.at("autocast." + activation(sum)),
            (Numbers{static_cast<float>(static_cast<float>(r) + static_cast<float>(kept))}));
}

// A stream that begins in 16 bits stays there, and so does its gradient.
TEST_F(Autocast, ANarrowResidualIsRoundedByEverySumAndSoAreItsGradients) {
  const double r = 1.2345678, w = 0.3;
  const int start = job.parameter("start", {1, 1}, {r});
  const int weight = job.parameter("w", {1, 1}, {w});
  const int zero = job.input("zero", {1, 1}, {0});
  const int residual = job.node("add", kNone, {start, zero}, {1, 1});
  job.root()["graph"]["values"][residual]["narrow"] = 1;
  const int branch = job.node("linear", kNone, {residual, weight, kLeftOut}, {1, 1});
  const int sum = job.node("add", kNone, {residual, branch}, {1, 1});
  job.sum_as_loss(sum, 0.123);
  dump(residual);
  dump(sum);
  const Outcome outcome = run("bf16");
  EXPECT_EQ(outcome.at("autocast." + activation(residual)), (Numbers{bf16(r)}));
  EXPECT_EQ(outcome.at("autocast." + activation(sum)), (Numbers{bf16(bf16(r) + bf16(bf16(r) * bf16(w)))}));
  const double back = bf16(0.123);
  EXPECT_EQ(outcome.at("autocast.grad.start.0"), (Numbers{bf16(back + bf16(back * bf16(w)))}));
  EXPECT_DOUBLE_EQ(outcome.scalar("loss.s0"), (r + r * w) * 0.123);
}

TEST_F(Autocast, NormsAndLossesOf16BitInputsAreFloat32) {
  const int x = job.input("x", {1, 2}, {0.7, -0.3});
  const int w = job.parameter("w", {2, 2}, {1, 0.5, -0.25, 1});
  const int scale = job.parameter("scale", {2}, {1.1, 0.9});
  const int targets = job.integer_input("targets", {1}, {1});
  const int logits = job.node("linear", kNone, {x, w, kLeftOut}, {1, 2});
  const int norm = job.node("layernorm", {{"eps", 0.1}}, {logits, scale, kLeftOut}, {1, 2});
  const int rows = job.node("cross_entropy", kNone, {logits, targets}, {1});
  job.sum_as_loss(rows);
  dump(norm);
  dump(rows);
  const Outcome outcome = run("bf16");
  const double p = bf16(bf16(0.7) + 0.5 * bf16(-0.3)), q = bf16(-0.25 * bf16(0.7) + bf16(-0.3));
  const double mean = (p + q) / 2, unit = (p - mean) / std::sqrt((p - mean) * (p - mean) + 0.1);
  EXPECT_NEAR(outcome.at("autocast." + activation(norm))[0], 1.1 * unit, 1e-6);
  EXPECT_NEAR(outcome.at("autocast." + activation(norm))[1], -0.9 * unit, 1e-6);
  EXPECT_NEAR(outcome.scalar("autocast." + activation(rows)), std::log(1 + std::exp(p - q)), 1e-6);
}

// One head, two positions, one element a head, written out with its gradients as FlashAttention computes
// them.
TEST_F(Autocast, AttentionRoundsItsWeightsAndTheGradientOfItsScores) {
  const Numbers q = {0.31, 1.7}, k = {0.83, -1.21}, v = {0.57, -0.77};
  const int heads[] = {job.parameter("q", {1, 2, 1, 1}, q), job.parameter("k", {1, 2, 1, 1}, k),
                       job.parameter("v", {1, 2, 1, 1}, v)};
  const int mixed = job.node("attention", {{"causal", false}, {"scale", 1.0}},
                             {heads[0], heads[1], heads[2], kLeftOut}, {1, 2, 1, 1});
  job.sum_as_loss(mixed, 0.9);
  dump(mixed);
  const Outcome outcome = run("bf16");
  const double back = bf16(0.9);
  Numbers out(2), dq(2), dk(2), dv(2);
  for (int i = 0; i < 2; ++i) {
    double weight[2], sum = 0, dot = 0;
    for (int j = 0; j < 2; ++j) sum += weight[j] = std::exp(bf16(q[i]) * bf16(k[j]));
    for (int j = 0; j < 2; ++j) {
      weight[j] /= sum;
      out[i] += bf16(weight[j]) * bf16(v[j]);
      dv[j] += bf16(weight[j]) * back;
      dot += weight[j] * back * bf16(v[j]);
    }
    for (int j = 0; j < 2; ++j) {
      const double score = bf16(weight[j] * (back * bf16(v[j]) - dot));
      dq[i] += score * bf16(k[j]);
      dk[j] += score * bf16(q[i]);
    }
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(outcome.at("autocast." + activation(mixed))[i], bf16(out[i]));
    EXPECT_EQ(outcome.at("autocast.grad.q.0")[i], bf16(dq[i]));
    EXPECT_EQ(outcome.at("autocast.grad.k.0")[i], bf16(dk[i]));
    EXPECT_EQ(outcome.at("autocast.grad.v.0")[i], bf16(dv[i]));
  }
}

// 2^-40 is far below fp16's smallest number; scaled by 2^16 it is 2^-24, that number.
TEST_F(Autocast, Fp16ScalesTheLossSoThatSmallGradientsSurvive) {
  const double tiny = std::ldexp(1, -40);
  const int x = job.input("x", {1, 1}, {1});
  const int w = job.parameter("w", {1, 1}, {1});
  job.sum_as_loss(job.node("linear", kNone, {x, w, kLeftOut}, {1, 1}), tiny);
  const Outcome outcome = run("fp16");
  EXPECT_EQ(outcome.scalar("autocast.grad.w.0"), tiny);
  EXPECT_EQ(outcome.scalar("autocast.loss.s0"), tiny);
}

TEST_F(Autocast, Fp16HalvesTheScaleUntilTheGradientsFit) {
  const int x = job.input("x", {1, 1}, {1});
  const int w = job.parameter("w", {1, 1}, {1});
  const int y = job.node("linear", kNone, {x, w, kLeftOut}, {1, 1});
  job.sum_as_loss(y, 12);
  dump(y);
  const Outcome outcome = run("fp16");
  EXPECT_EQ(outcome.scalar("autocast.grad.w.0"), 12);
  EXPECT_EQ(outcome.scalar("autocast.loss.s0"), 12);
}

TEST_F(Autocast, Fp16SaysWhenNoScaleHelps) {
  const int x = job.input("x", {1, 1}, {300});
  const int w = job.parameter("w", {1, 1}, {300});
  job.sum_as_loss(job.node("silu", kNone, {job.node("linear", kNone, {x, w, kLeftOut}, {1, 1})}, {1, 1}),
                  1e5);
  job.root()["autocast"] = "fp16";
  const Outcome outcome = job.write_and_run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "hydrac-oracle: error: step 0 overflows under autocast to fp16 whatever the loss is scaled by\n");
}

// Every name of the first run comes again; the first run is what it is without the second; the second is as
// far from it as its type lets it be. Models so small average little out, so bf16's 0.4% a number grows to
// some percent.
void expect_a_second_run(JobFolder& job) {
  job.root()["optimizer"] = {{"name", "sgd"}, {"learning_rate", 0.01}, {"momentum", 0.0}};
  const Outcome alone = job.write_and_run();
  double errors[2];
  for (const int fp16 : {0, 1}) {
    job.root()["autocast"] = fp16 ? "fp16" : "bf16";
    const Outcome both = job.write_and_run();
    ASSERT_EQ(both.exit_code, 0) << both.err;
    EXPECT_EQ(both.values.size(), 2 * alone.values.size());
    Numbers gradients, reference;
    for (const auto& [name, numbers] : alone.values) {
      EXPECT_EQ(both.at(name), numbers) << name;
      const Numbers& second = both.at("autocast." + name);
      ASSERT_EQ(second.size(), numbers.size()) << name;
      if (!name.starts_with("grad.")) continue;
      gradients.insert(gradients.end(), second.begin(), second.end());
      reference.insert(reference.end(), numbers.begin(), numbers.end());
    }
    errors[fp16] = relative_error(gradients, reference);
  }
  EXPECT_GT(errors[0], 1e-3);
  EXPECT_LT(errors[0], 6e-2);
  EXPECT_GT(errors[1], 1e-4);
  EXPECT_LT(errors[1], errors[0] / 3);  // three bits more
}

TEST(AutocastModel, ASmallGptRunsTwice) {
  JobFolder job;
  build_gpt(job);
  expect_a_second_run(job);
}

TEST(AutocastModel, ASmallLlamaRunsTwice) {
  JobFolder job;
  build_llama(job);
  expect_a_second_run(job);
}

TEST(Device, ComputesTheSameOnAGpu) {
  JobFolder job;
  build_gpt(job);
  job.root()["autocast"] = "bf16";
  const Outcome cpu = job.write_and_run();
  const Outcome gpu = job.run("verify", "--device cuda");
  if (gpu.err.find("LibTorch sees no GPU") != std::string::npos)
    GTEST_SKIP() << "SKIPPED: no GPU that LibTorch can use, so the oracle was not run on one";
  ASSERT_EQ(gpu.exit_code, 0) << gpu.err;
  ASSERT_EQ(gpu.values.size(), cpu.values.size());
  for (const auto& [name, numbers] : cpu.values)
    for (std::size_t i = 0; i < numbers.size(); ++i)
      EXPECT_NEAR(gpu.at(name)[i], numbers[i], name.starts_with("autocast.") ? 2e-2 : 1e-10) << name;
}

TEST(Device, AutoFallsBackToTheCpu) {
  JobFolder job;
  build_llama(job);
  job.write();
  const Outcome outcome = job.run("verify", "--device auto");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.status, (json{{"ok", true}}));
}

TEST(Device, SaysWhatItCannotUse) {
  JobFolder job;
  build_llama(job);
  job.write();
  EXPECT_EQ(job.run("verify", "--device tpu").err,
            "hydrac-oracle: error: --device is \"tpu\"; it must be cpu, cuda or auto\n");
  EXPECT_EQ(job.run("bench", "--device auto").err,
            "hydrac-oracle: error: bench times on the CPU: --device is verify's\n");
  EXPECT_EQ(job.run("verify", "--device").exit_code, 2);
}

}  // namespace
}  // namespace hydrac::oracle
