// Dynamic loss scaling on interpreted graphs: powers of two cancel out exactly, an overflow changes nothing
// but the scale.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "small_models.h"

namespace hydrac::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

spec::Spec spec_of(spec::Precision precision, const std::string& train) {
  spec::Spec spec = small_spec(
      "hidden_size: 8, num_hidden_layers: 2, num_attention_heads: 1, vocab_size: 5, intermediate_size: 4",
      "sequence_len: 4, micro_batch_size: 1, max_grad_norm: 0.5, " + train);
  spec.optimizations.precision = precision;
  return spec;
}

// A model and its state; steps as a program runs them.
struct Training {
  Training(spec::Precision precision, const std::string& train, const optimizers::LossScaling& scaling = {})
      : small(spec_of(precision, train), {.accumulate = accumulates(train),
                                          .all_functions = true,
                                          .fuse = true,
                                          .in_place = true,
                                          .loss_scaling = scaling}),
        interpreter(small.graph) {
    small.fill(interpreter);
  }

  static bool accumulates(const std::string& train) {
    return train.find("accumulation") != std::string::npos;
  }

  void micro_steps() {
    for (int64_t i = 0; i < small.spec.train.gradient_accumulation_steps; ++i) interpreter.run("micro_step");
  }
  void step() {
    micro_steps();
    interpreter.run("update");
  }
  // A step in which one element of the gradients is `bad`.
  void bad_step(double bad) {
    micro_steps();
    std::vector<double> gradients = read("gradients");
    gradients[gradients.size() / 2] = bad;
    interpreter.write({small.graph.find("gradients"), {}}, gradients);
    interpreter.run("update");
  }

  std::vector<double> read(const std::string& name) const {
    return interpreter.read({small.graph.find(name), {}});
  }
  double scalar(const std::string& name) const { return read(name).at(0); }
  double reported(ir::ValueId ir::ResultPorts::*result) const {
    return interpreter.read_scalar(small.graph.results.*result);
  }
  // Name -> contents of what a checkpoint holds, but the scale and its counter.
  std::map<std::string, std::vector<double>> state() const {
    std::map<std::string, std::vector<double>> state{{"parameters", read("parameters")}};
    for (const ir::Value& value : small.graph.values) {
      if (value.role == ir::Role::optimizer_state && !value.name.starts_with("loss_scale"))
        state[value.name] = read(value.name);
    }
    return state;
  }

  SmallModel small;
  Interpreter interpreter;
};

using ir::ResultPorts;
using spec::Precision;

constexpr const char* kConstant = "lr_scheduler: {name: constant}, optimizer: {learning_rate: 0.01}";

class LossScale : public testing::TestWithParam<std::string> {};

TEST_P(LossScale, CancelsOutWhereNothingOverflows) {
  Training plain(Precision::fp32, GetParam()), scaled(Precision::fp16, GetParam(), {.growth_interval = 2});
  for (int step = 0; step < 5; ++step) {
    const double scale = scaled.scalar("loss_scale");
    EXPECT_EQ(scale, 65536 << step / 2);
    plain.micro_steps();
    scaled.micro_steps();
    EXPECT_EQ(plain.scalar("loss"), scaled.scalar("loss"));
    const std::vector<double> gradients = plain.read("gradients"), larger = scaled.read("gradients");
    for (size_t i = 0; i < gradients.size(); ++i) ASSERT_EQ(gradients[i] * scale, larger[i]);
    plain.interpreter.run("update");
    scaled.interpreter.run("update");
    for (const auto metric : {&ResultPorts::step_loss, &ResultPorts::grad_norm, &ResultPorts::learning_rate})
      EXPECT_EQ(plain.reported(metric), scaled.reported(metric));
    EXPECT_EQ(scaled.reported(&ResultPorts::loss_scale), scale);
    EXPECT_EQ(scaled.reported(&ResultPorts::skipped), 0);
    EXPECT_GT(plain.reported(&ResultPorts::grad_norm), 0.5) << "so that clipping is at work";
    ASSERT_EQ(plain.read("parameters"), scaled.read("parameters"));
    for (const auto& [name, moment] : plain.state()) ASSERT_EQ(moment, scaled.read(name)) << name;
  }
}

TEST_P(LossScale, AnOverflowChangesNothingButTheScale) {
  for (const double bad : {kInfinity, -kInfinity, std::nan(""), 1e300}) {
    Training run(Precision::fp16, GetParam());
    run.step();
    const auto before = run.state();
    run.bad_step(bad);
    EXPECT_EQ(run.state(), before);
    EXPECT_EQ(run.reported(&ResultPorts::skipped), 1);
    EXPECT_EQ(run.reported(&ResultPorts::loss_scale), 65536);
    EXPECT_FALSE(std::isfinite(run.reported(&ResultPorts::grad_norm)));
    EXPECT_EQ(run.scalar("loss_scale"), 32768);
    EXPECT_EQ(run.scalar("loss_scale.good_steps"), 0);
    EXPECT_EQ(run.scalar("step"), 2);
    EXPECT_EQ(run.scalar("loss"), 0);
  }
}

TEST_P(LossScale, AfterAnOverflowTheRunGoesOnAsIfThatStepHadNotBeen) {
  Training whole(Precision::fp32, GetParam()), run(Precision::fp16, GetParam());
  for (int step = 0; step < 3; ++step) whole.step();
  run.bad_step(kInfinity);
  run.step();
  run.bad_step(std::nan(""));
  run.bad_step(-kInfinity);
  run.step();
  run.step();
  EXPECT_EQ(run.scalar("loss_scale"), 8192);
  EXPECT_EQ(run.scalar("step"), 6);
  EXPECT_EQ(run.read("parameters"), whole.read("parameters"));
  for (const auto& [name, moment] : whole.state()) EXPECT_EQ(moment, run.read(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(
    All, LossScale,
    testing::Values(
        "lr_scheduler: {name: constant}, optimizer: {name: adamw, learning_rate: 0.01}",
        "lr_scheduler: {name: constant}, gradient_accumulation_steps: 2, optimizer: {name: adamw, "
        "learning_rate: 0.01, weight_decay: 0.1}",
        "lr_scheduler: {name: constant}, gradient_accumulation_steps: 2, optimizer: {name: lion, "
        "learning_rate: 0.01, weight_decay: 0.2}",
        "lr_scheduler: {name: constant}, optimizer: {name: sgd, learning_rate: 0.1}"));

// Codes and scales too; the overflow is in a row whose largest magnitude the kernel finds.
TEST(LossScaleOfEightBitMoments, ASkippedStepLeavesThemAsTheyAre) {
  spec::Spec spec = small_spec(
      "hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 1, vocab_size: 70, intermediate_size: 16",
      "sequence_len: 4, micro_batch_size: 1, lr_scheduler: {name: constant}");
  spec.optimizations.precision = Precision::fp16;
  spec.optimizations.optimizer_state = spec::StateType::int8;
  const SmallModel small(spec, {.all_functions = true, .fuse = true, .in_place = true});
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  const auto state = [&] {
    std::map<std::string, std::vector<double>> state;
    for (const ir::Value& value : small.graph.values) {
      const bool is_moment = value.role == ir::Role::optimizer_state && value.name.starts_with("adam.");
      if (is_moment || value.name == "parameters") state[value.name] = interpreter.read({value.id, {}});
    }
    return state;
  };
  const auto start = state();
  interpreter.run("micro_step");
  interpreter.run("update");
  const auto before = state();
  for (const char* name : {"parameters", "adam.m.codes", "adam.m.scales", "adam.v.codes", "adam.v.scales"})
    EXPECT_NE(before.at(name), start.at(name)) << name;
  for (const double bad : {kInfinity, std::nan("")}) {
    interpreter.run("micro_step");
    const ir::Use gradients{small.graph.find("gradients.int8_state"), {}};
    std::vector<double> numbers = interpreter.read(gradients);
    numbers[1000] = bad;
    interpreter.write(gradients, numbers);
    interpreter.run("update");
    EXPECT_EQ(state(), before);
  }
}

TEST(LossScaleRule, GrowsAfterGoodStepsInARowOnly) {
  Training run(Precision::fp16, kConstant, {.growth = 4, .backoff = 0.25, .growth_interval = 3});
  std::vector<double> scales;
  for (const bool good : {true, true, false, true, true, true, true, true, true, false, true}) {
    good ? run.step() : run.bad_step(kInfinity);
    scales.push_back(run.scalar("loss_scale") / 65536);
  }
  EXPECT_EQ(scales, (std::vector<double>{1, 1, 0.25, 0.25, 0.25, 1, 1, 1, 4, 1, 1}));
  EXPECT_EQ(run.scalar("loss_scale.good_steps"), 1);
}

TEST(LossScaleRule, StopsGrowingWhileItsInverseIsANormalNumber) {
  Training run(Precision::fp16, kConstant, {.growth_interval = 1});
  run.interpreter.write({run.small.graph.find("loss_scale"), {}}, {0x1p125});
  for (int step = 0; step < 3; ++step) run.step();
  EXPECT_EQ(run.scalar("loss_scale"), 0x1p126);
}

TEST(LossScaleRule, TheScheduleGoesOnAndTheBiasCorrectionWaits) {
  Training run(Precision::fp16,
               "lr_scheduler: {name: constant, warmup_steps: 4}, optimizer: {learning_rate: 1}");
  run.step();
  run.bad_step(kInfinity);
  EXPECT_EQ(run.reported(&ResultPorts::learning_rate), 0.5);
  run.step();
  EXPECT_EQ(run.reported(&ResultPorts::learning_rate), 0.75);
  EXPECT_EQ(run.scalar("step"), 3);
  EXPECT_EQ(run.scalar("adam.step"), 2);
}

TEST(LossScaleRule, OtherPrecisionsKnowNoScale) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    const Training run(precision, kConstant);
    for (const char* name : {"loss_scale", "loss_scale.good_steps", "skipped", "adam.step"})
      EXPECT_EQ(run.small.graph.find(name), ir::kNoValue);
    EXPECT_EQ(run.small.graph.results.loss_scale, ir::kNoValue);
    EXPECT_EQ(run.small.graph.results.skipped, ir::kNoValue);
  }
}

}  // namespace
}  // namespace hydrac::test
