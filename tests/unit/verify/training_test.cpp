#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "tests/unit/support/temp_dir.h"
#include "tests/unit/train/fake_program.h"
#include "verify/repeat.h"
#include "verify/training.h"

namespace hydrac::verify {
namespace {

std::vector<runtime::Batch> two_batches() {
  std::vector<runtime::Batch> batches(2);
  const runtime::FakeLoader loader;
  for (size_t i = 0; i < 2; ++i) loader.fill_train(static_cast<int64_t>(2 * i), batches[i]);
  return batches;
}

TEST(TakeStep, RunsAllMicroBatchesWithOneInverseCount) {
  runtime::FakeProgram program;
  program.initialize();
  int looks = 0;
  const auto batches = two_batches();
  take_step(program, batches, [&] { ++looks; });
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(program.inv_counts, std::vector<float>(2, inverse_count(batches)));
  EXPECT_EQ(program.counters().step, 1);
}

TEST(TakeStep, TakesAnOverflowingStepAgainAtHalfTheScaleFromTheSameCounters) {
  runtime::FakeProgram overflowing, plain;
  for (runtime::FakeProgram* program : {&overflowing, &plain}) {
    program->scales = true;
    program->initialize();
  }
  overflowing.overflows = {1};
  int tries = 0;
  overflowing.in_finish = [&](int64_t) {
    if (++tries == 2) overflowing.overflows.clear();  // the third one is fine
  };
  int looks = 0;
  const runtime::StepResult result = take_step(overflowing, two_batches(), [&] { ++looks; });
  const runtime::StepResult wanted = take_step(plain, two_batches());
  EXPECT_EQ(looks, 3);
  EXPECT_FALSE(result.skipped);
  EXPECT_EQ(result.loss_scale, 256);
  EXPECT_EQ(result.loss, wanted.loss);
  EXPECT_EQ(overflowing.weight, plain.weight);
  EXPECT_EQ(overflowing.counters().step, 1);
  EXPECT_EQ(overflowing.counters().rng_step, 2);
}

TEST(TakeStep, GivesUpWithoutAScaleLeftToHalve) {
  runtime::FakeProgram program;
  program.scales = true;
  program.initialize();
  program.overflows = {1};
  EXPECT_EQ(test::message_of<runtime::RunError>([&] { take_step(program, two_batches()); }),
            "step 0 overflows whatever the loss is scaled by");
  EXPECT_EQ(program.loss_scale, 0.5f);
}

Training some_training() {
  Training training;
  training.steps.resize(2);
  training.steps[1].loss = 1.5f;
  training.gradients["w"] = {{1, 2}, {3, 4}};
  training.parameters["w"] = {{5, 6}, {7, -0.0f}};
  return training;
}

TEST(CompareBits, EqualTrainingsAreTheSame) {
  const Sameness same = compare_bits("two runs", some_training(), some_training());
  EXPECT_EQ(same.what, "two runs");
  EXPECT_EQ(same.compared, 8u);  // five numbers of each step, the evaluation, a gradient, a parameter
  EXPECT_TRUE(same.passed());
}

TEST(CompareBits, NamesWhatDiffersInASingleBit) {
  Training other = some_training();
  other.steps[1].loss = std::nextafter(1.5f, 2.0f);
  other.gradients["w"][1][0] = std::nextafter(3.0f, 4.0f);
  other.parameters["w"][1][1] = 0;  // +0 is not -0
  const Sameness same = compare_bits("two runs", some_training(), other);
  EXPECT_FALSE(same.passed());
  EXPECT_EQ(same.differing, (std::vector<std::string>{"loss", "gradient w", "parameter w"}));
}

TEST(CompareBits, AMissingTensorDiffersAndTheSameNaNDoesNot) {
  Training a = some_training(), b = some_training();
  a.steps[0].grad_norm = b.steps[0].grad_norm = std::nanf("");
  EXPECT_TRUE(compare_bits("", a, b).passed());
  b.parameters.clear();
  EXPECT_EQ(compare_bits("", a, b).differing, std::vector<std::string>{"parameter w"});
  b.steps.pop_back();
  EXPECT_EQ(compare_bits("", a, b).differing.size(), 6u);
}

}  // namespace
}  // namespace hydrac::verify
