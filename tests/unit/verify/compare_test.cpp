#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "tests/unit/support/temp_dir.h"
#include "verify/verify.h"

namespace hydrac::verify {
namespace {

// An oracle's results and ours, for one step of a model with one parameter "w" of one slot.
class Results {
 public:
  Results() {
    training.steps.resize(1);
    training.steps[0].loss = 4;
    training.steps[0].grad_norm = 10;
    training.steps[0].learning_rate = 0.5f;
    for (const std::string prefix : {"", "autocast."}) {
      reference[prefix + "loss.s0"] = {4};
      reference[prefix + "grad_norm.s0"] = {10};
      set(prefix + "grad.w.0", 3);
      set(prefix + "param.w.0", 30);
    }
    training.gradients["w"] = {std::vector<float>(kElements, 3)};
    training.parameters["w"] = {std::vector<float>(kElements, 30)};
    spec.optimizations.precision = spec::Precision::fp32;
    spec.train.optimizer.name = spec::Optimizer::adamw;
  }

  void set(const std::string& name, double value) { reference[name].assign(kElements, value); }

  Difference row(const std::string& what) const {
    for (const Difference& row : compare())
      if (row.what == what) return row;
    throw std::logic_error("no " + what);
  }

  std::vector<Difference> compare() const {
    const test::TempDir folder;
    std::vector<runtime::TensorToWrite> tensors;
    for (const auto& [name, values] : reference) {
      tensors.push_back(runtime::raw_tensor_to_write(name, runtime::SafetensorsDtype::f64,
                                                     {static_cast<int64_t>(values.size())}, values.data()));
    }
    runtime::FileWriter file(folder / "result.safetensors");
    runtime::write_safetensors(file, std::move(tensors));
    file.close_durably();
    return verify::compare(training, runtime::SafetensorsReader(folder / "result.safetensors"), spec);
  }

  static constexpr size_t kElements = 10000;  // the allowance for chance is 3 / 100
  Training training;
  std::map<std::string, std::vector<double>> reference;
  spec::Spec spec;
};

TEST(Compare, ListsLossAndNormOfEachStepThenGradientsThenParameters) {
  Results results;
  std::vector<std::string> rows;
  for (const Difference& row : results.compare()) {
    rows.push_back(row.what + " " + row.name);
    EXPECT_TRUE(row.passed()) << rows.back();
    EXPECT_EQ(row.relative, 0) << rows.back();
    EXPECT_FALSE(row.autocast) << rows.back();
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"loss step 0", "grad_norm step 0", "gradient w", "parameter w"}));
}

TEST(Compare, Fp32MayBeATenThousandthOff) {
  Results results;
  results.training.gradients["w"][0].assign(Results::kElements, 3 * (1 + 0.9e-4f));
  EXPECT_TRUE(results.row("gradient").passed());
  EXPECT_NEAR(results.row("gradient").relative, 0.9e-4, 1e-6);
  results.training.gradients["w"][0].assign(Results::kElements, 3 * (1 + 1.2e-4f));
  EXPECT_FALSE(results.row("gradient").passed());
  results.training.steps[0].loss = 4 * (1 + 2e-5f);
  EXPECT_FALSE(results.row("loss").passed());
}

TEST(Compare, Tf32MayBeThreeThousandthsOff) {
  Results results;
  results.spec.optimizations.precision = spec::Precision::tf32;
  results.training.gradients["w"][0].assign(Results::kElements, 3 * (1 + 2.9e-3f));
  EXPECT_TRUE(results.row("gradient").passed());
  results.training.gradients["w"][0].assign(Results::kElements, 3 * (1 + 3.1e-3f));
  EXPECT_FALSE(results.row("gradient").passed());
}

TEST(Compare, NothingThatIsNaNPasses) {
  Results results;
  results.training.gradients["w"][0][5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(results.row("gradient").passed());
  results.spec.optimizations.precision = spec::Precision::bf16;
  EXPECT_FALSE(results.row("gradient").passed());
  results.training.steps[0].loss = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(results.row("loss").passed());
}

TEST(Compare, SixteenBitGradientsMayBeAQuarterFurtherOffThanAutocasts) {
  Results results;
  results.spec.optimizations.precision = spec::Precision::bf16;
  results.set("autocast.grad.w.0", 3 * (1 + 1e-2));
  const Difference row = results.row("gradient");
  ASSERT_TRUE(row.autocast);
  EXPECT_NEAR(*row.autocast, 1e-2, 1e-9);
  EXPECT_NEAR(row.tolerance, 1.25e-2 * 1.03, 1e-9);
  results.training.gradients["w"][0].assign(Results::kElements, 3 * (1 - 1.2e-2f));
  EXPECT_TRUE(results.row("gradient").passed());
  results.training.gradients["w"][0].assign(Results::kElements, 3 * (1 - 1.4e-2f));
  EXPECT_FALSE(results.row("gradient").passed());
}

TEST(Compare, AnAutocastWithoutErrorLeavesTheFloor) {
  Results results;
  results.spec.optimizations.precision = spec::Precision::fp16;
  EXPECT_EQ(results.row("gradient").tolerance, 1e-4);
  EXPECT_EQ(results.row("loss").tolerance, 6e-5);
  results.spec.optimizations.precision = spec::Precision::bf16;
  EXPECT_EQ(results.row("loss").tolerance, 5e-4);
}

TEST(Compare, OneNumberIsMeasuredByAutocastsWorstStep) {
  Results results;
  results.spec.optimizations.precision = spec::Precision::bf16;
  results.training.steps.push_back(results.training.steps[0]);
  for (const std::string prefix : {"", "autocast."}) {
    results.reference[prefix + "loss.s1"] = {4};
    results.reference[prefix + "grad_norm.s1"] = {10};
  }
  results.reference["autocast.grad_norm.s1"] = {10.2};
  for (const Difference& row : results.compare()) {
    if (row.what != "grad_norm") continue;
    EXPECT_NEAR(row.tolerance, 1.25 * 0.02, 1e-9) << row.name;
  }
}

TEST(Compare, SmallTensorsAreGivenLuck) {
  EXPECT_DOUBLE_EQ(allowed_beside_autocast(0.01, 9), 0.0125 * 2);
  EXPECT_NEAR(allowed_beside_autocast(0.01, 90000000), 0.0125, 1e-5);
}

TEST(Compare, ParametersWithoutAResolvedGradientAreLeftOut) {
  Results results;
  results.reference["grad.w.0"][7] = 1e-5;      // of a root mean square of 3
  results.training.parameters["w"][0][7] = 29;  // made a step in the other direction
  const Difference row = results.row("parameter");
  EXPECT_EQ(row.left_out, 1);
  EXPECT_EQ(row.relative, 0);
  results.reference["grad.w.0"][7] = 0;  // no gradient at all: it must not move
  EXPECT_EQ(results.row("parameter").left_out, 0);
  EXPECT_FALSE(results.row("parameter").passed());
}

TEST(Compare, SgdLeavesNothingOut) {
  Results results;
  results.spec.train.optimizer.name = spec::Optimizer::sgd;
  results.reference["grad.w.0"][7] = 1e-5;
  EXPECT_EQ(results.row("parameter").left_out, 0);
}

TEST(Compare, UnderAutocastAsManyElementsAreUnresolvedAsItsGradientsErrorSays) {
  Results results;
  results.spec.optimizations.precision = spec::Precision::bf16;
  results.set("autocast.grad.w.0", 3 * (1 + 1e-2));
  for (const std::string name : {"grad.w.0", "autocast.grad.w.0"}) {
    results.reference[name][7] = 0.08;  // below three hundredths of the root mean square
    results.reference[name][8] = 0.1;
  }
  EXPECT_EQ(results.row("parameter").left_out, 1);
}

TEST(Compare, FourElementsMayGoTheOtherWayIn16BitsAndNoneInFp32) {
  Results results;
  for (size_t i = 0; i < 4; ++i) results.training.parameters["w"][0][i] = 29;  // twice the learning rate off
  EXPECT_FALSE(results.row("parameter").passed());
  results.spec.optimizations.precision = spec::Precision::bf16;
  EXPECT_TRUE(results.row("parameter").passed()) << results.row("parameter").relative;
  for (size_t i = 4; i < 9; ++i) results.training.parameters["w"][0][i] = 29;
  EXPECT_FALSE(results.row("parameter").passed());
}

TEST(Compare, WhatIsRoundedStochasticallyMayGoToTheOtherNeighbour) {
  Results results;
  results.training.parameters["w"][0].assign(Results::kElements, 30 * 1.0005f);
  EXPECT_FALSE(results.row("parameter").passed());
  results.spec.optimizations.optimizer_state = spec::StateType::bf16;
  EXPECT_TRUE(results.row("parameter").passed());
  EXPECT_NEAR(results.row("parameter").tolerance, 8.8e-4, 1e-5);
}

TEST(Compare, LionsSignsMayChangeInLaterSteps) {
  Results results;
  results.spec.train.optimizer.name = spec::Optimizer::lion;
  const auto other_way = [&](size_t elements) {
    auto& w = results.training.parameters["w"][0];
    std::fill_n(w.begin(), elements, 30 - 2 * 0.5f * static_cast<float>(results.training.steps.size()));
  };
  // In one step, one element. In two, of 10,000 elements with a relative error of 1e-4 a third of one is
  // expected to change its sign, and three standard deviations more are 1.7.
  other_way(1);
  EXPECT_TRUE(results.row("parameter").passed());
  other_way(3);
  EXPECT_FALSE(results.row("parameter").passed());
  results.training.steps.push_back(results.training.steps[0]);
  for (const std::string number : {"loss", "grad_norm"})
    results.reference[number + ".s1"] = results.reference[number + ".s0"];
  other_way(3);
  EXPECT_TRUE(results.row("parameter").passed());
  other_way(4);
  EXPECT_FALSE(results.row("parameter").passed());
}

TEST(Compare, NamesATensorThatTheOracleDidNotWrite) {
  Results results;
  results.spec.optimizations.precision = spec::Precision::bf16;
  results.reference.erase("autocast.grad.w.0");
  EXPECT_NE(test::message_of<runtime::InputError>([&] { results.compare(); }).find("autocast.grad.w.0"),
            std::string::npos);
  results.reference["autocast.grad.w.0"] = {1, 2};
  EXPECT_NE(test::message_of<runtime::InputError>([&] {
              results.compare();
            }).find("autocast.grad.w.0 has 16 bytes, 10000 float64 numbers are wanted"),
            std::string::npos);
}

TEST(Tolerances, ThereAreNoneForFp8) {
  EXPECT_EQ(test::message_of<runtime::InputError>([] { tolerances(spec::Precision::fp8); }),
            "verify has no yardstick for optimizations.precision: fp8; write fp32, tf32, bf16 or fp16");
}

TEST(Autocast, IsAskedForIn16BitsOnly) {
  EXPECT_EQ(autocast_of(spec::Precision::fp32), "");
  EXPECT_EQ(autocast_of(spec::Precision::tf32), "");
  EXPECT_EQ(autocast_of(spec::Precision::bf16), "bf16");
  EXPECT_EQ(autocast_of(spec::Precision::fp16), "fp16");
}

}  // namespace
}  // namespace hydrac::verify
