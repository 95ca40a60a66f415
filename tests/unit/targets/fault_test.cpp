// Numbers that are none: how they are found in memory, and that a program says where they began.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "runtime/error.h"
#include "runtime/program/after_call.h"
#include "runtime/program/non_finite.h"
#include "targets/cpu/executor.h"
#include "targets/executable/call_table.h"
#include "tests/unit/core/small_models.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::targets {
namespace {

using runtime::non_finite;
using runtime::SafetensorsDtype;
using test::message_of;
using test::TempDir;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = NAN;

TEST(NonFiniteElements, AreFoundThroughStridesOnly) {
  std::vector<float> memory(12, 1.0f);
  memory[3] = kNaN;  // not of the view: its rows have 3 of 4 elements
  const runtime::TensorView view{"x", SafetensorsDtype::f32, 0, {3, 3}, {4, 1}};
  const auto bytes = std::as_bytes(std::span(memory));
  EXPECT_EQ(view.bytes(), 44);
  EXPECT_FALSE(non_finite(view, bytes));
  memory[6] = -kInfinity;
  memory[8] = kNaN;
  const auto found = non_finite(view, bytes);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->count, 2);
  EXPECT_EQ(found->elements, 9);
  EXPECT_EQ(found->first, (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(found->nan);
}

TEST(NonFiniteElements, OfEveryType) {
  struct Case {
    SafetensorsDtype dtype;
    uint16_t largest, infinity, nan;
  };
  for (const Case& c : {Case{SafetensorsDtype::bf16, 0x7F7F, 0x7F80, 0xFFC1},
                        Case{SafetensorsDtype::f16, 0x7BFF, 0xFC00, 0x7C01}}) {
    for (const auto& [bits, nan] : {std::pair(c.infinity, false), std::pair(c.nan, true)}) {
      const std::vector<uint16_t> memory = {c.largest, bits, 0};
      const auto found = non_finite({"x", c.dtype, 0, {3}, {1}}, std::as_bytes(std::span(memory)));
      ASSERT_TRUE(found);
      EXPECT_EQ(found->count, 1);
      EXPECT_EQ(found->first, (std::vector<int64_t>{1}));
      EXPECT_EQ(found->nan, nan);
    }
  }
  const std::vector<float> scalar = {kNaN};
  const auto bytes = std::as_bytes(std::span(scalar));
  EXPECT_TRUE(non_finite({"x", SafetensorsDtype::f32, 0, {}, {}}, bytes));
  EXPECT_FALSE(non_finite({"x", SafetensorsDtype::i32, 0, {}, {}}, bytes)) << "integers are finite";
}

TEST(CallTable, UnrollsLoopsAndTakesSlotsInTurn) {
  const runtime::CallTable table(
      "tensor x 32 2 4 F32 100 2 2 3 4 1\n"
      "tensor x~2 0 1 1 BF16 8 0  \n"
      "function micro_step\n"
      "section 3 down\n"
      "call kernel add @ model.norm, a spec.yaml:7\n"
      "uses x[l] x[1] -> x[l+1] x~2\n"
      "section 0 up\n"
      "call gemm NN 1x2x3 for y @ train, by default\n"
      "uses ->\n");
  const std::vector<runtime::TracedCall> calls = table.of("micro_step");
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0].text(), "kernel add of layer 2 (model.norm, a spec.yaml:7)");
  EXPECT_EQ(calls[1].text(), "kernel add of layer 1 (model.norm, a spec.yaml:7)");
  EXPECT_EQ(calls[3].text(), "gemm NN 1x2x3 for y (train, by default)");
  EXPECT_EQ(calls[0].reads.at(0).name, "x[2]");
  EXPECT_EQ(calls[0].reads.at(0).offset, 100);
  EXPECT_EQ(calls[0].reads.at(1).name, "x[1]");
  EXPECT_EQ(calls[0].makes.at(0).name, "x[3]");
  EXPECT_EQ(calls[0].makes.at(0).offset, 132);
  EXPECT_EQ(calls[0].makes.at(0).strides, (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(calls[0].makes.at(1).name, "x");
  EXPECT_EQ(calls[0].makes.at(1).dtype, SafetensorsDtype::bf16);
  EXPECT_TRUE(table.of("generate").empty());
}

// Its second call fails.
class FailingProgram final : public runtime::CpuStepProgram {
 public:
  FailingProgram() : CpuStepProgram(layout()) {}
  std::string description() const override { return ""; }

 private:
  static runtime::ProgramLayout layout() {
    runtime::ProgramLayout layout;
    layout.arena_bytes = layout.persistent_bytes = layout.input_bytes = 4;
    layout.inputs.inv_count = {0, 1};
    layout.calls = runtime::CallTable(
        "function micro_step\nsection 2 up\ncall kernel add @ model.norm, by default\nuses ->\n");
    return layout;
  }
  void execute(runtime::Function) override {
    runtime::after_call();
    throw runtime::RunError("an illegal address");
  }
};

TEST(CheckedKernels, OneThatFailsIsNamed) {
  FailingProgram program;
  const auto step = [&] { program.micro_step({}, 1); };
  EXPECT_EQ(message_of<runtime::RunError>(step), "an illegal address");
  program.check_kernels();
  EXPECT_EQ(message_of<runtime::RunError>(step),
            "kernel add of layer 1 (model.norm, by default) failed: an illegal address");
}

TEST(PlaceOfAKey, IsWhereTheUserWroteIt) {
  const spec::Spec spec = test::small_spec("hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2",
                                           "sequence_len: 8, micro_batch_size: 2, optimizer: {name: sgd}");
  EXPECT_EQ(place_of(spec, "model.hidden_size"), "model.hidden_size, small.yaml:3");
  EXPECT_EQ(place_of(spec, "model.norm"), "model.norm, by default");
  EXPECT_EQ(place_of(spec, "train.optimizer"), "train.optimizer, small.yaml:5");
  const spec::Spec overridden = test::shipped_spec("quickstart", {"model.vocab_size=256"});
  EXPECT_EQ(place_of(overridden, "model.vocab_size"), "model.vocab_size on the command line");
}

constexpr int64_t kB = 2, kT = 8, kV = 13;

class FaultTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { cache_ = std::make_unique<TempDir>(); }  // kernels are compiled once
  static void TearDownTestSuite() { cache_.reset(); }

  static std::unique_ptr<CpuProgram> fresh(const std::string& train = "") {
    const spec::Spec spec = test::small_spec(
        "hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 12, vocab_size: "
        "13, "
        "norm: layernorm, position: learned, hidden_act: gelu",
        "sequence_len: 8, micro_batch_size: 2" + train);
    auto program = std::make_unique<CpuProgram>(driver::compile(spec, {2, ""}), cache_->path());
    program->initialize();
    return program;
  }

  static runtime::Batch batch_of(int64_t number) {
    runtime::Batch batch;
    for (int64_t i = 0; i < kB * kT; ++i) {
      batch.tokens.push_back(static_cast<int32_t>((i * 5 + number) % kV));
      batch.targets.push_back(static_cast<int32_t>((i * 7 + number) % kV));
    }
    batch.target_count = kB * kT;
    return batch;
  }

  static runtime::StepResult step(CpuProgram& program, int64_t number,
                                  std::optional<float> bad_gradient = {}) {
    for (int64_t i = 0; i < program.compiled().spec.train.gradient_accumulation_steps; ++i)
      program.micro_step(batch_of(number + i), 1.0f / (kB * kT));
    if (bad_gradient) set(program, "gradients", 0, 100, *bad_gradient);
    program.update();
    return program.finish_step();
  }

  static void set(CpuProgram& program, const std::string& name, int slot, size_t element, float number) {
    const ir::ValueId value = program.compiled().graph.find(name);
    std::vector<float> values = program.read(value, slot);
    values.at(element) = number;
    program.write(value, slot, values);
  }

  static std::vector<std::vector<float>> state(CpuProgram& program) {
    std::vector<std::vector<float>> all;
    for (const char* name : {"parameters", "adam.m", "adam.v"})
      all.push_back(program.read(program.compiled().graph.find(name), 0));
    return all;
  }

  static std::unique_ptr<TempDir> cache_;
};

std::unique_ptr<TempDir> FaultTest::cache_;

TEST_F(FaultTest, AStepThatIsNotFiniteChangesNothingNorDoesAnyAfterIt) {
  for (const float bad : {kNaN, kInfinity, 3e38f}) {  // the last is finite, its square is not
    const auto program = fresh();
    step(*program, 0);
    const auto before = state(*program);
    EXPECT_FALSE(std::isfinite(step(*program, 1, bad).grad_norm));
    EXPECT_TRUE(state(*program) == before);
    EXPECT_TRUE(std::isfinite(step(*program, 2).grad_norm));
    EXPECT_TRUE(state(*program) == before);
  }
}

TEST_F(FaultTest, AParameterThatIsNotFiniteIsNamedAsInACheckpoint) {
  const auto program = fresh();
  set(*program, "mlp.up.weight", 1, 5, kNaN);
  EXPECT_TRUE(std::isnan(step(*program, 0).loss));
  EXPECT_EQ(
      program->explain_divergence(),
      "the parameter transformer.h.1.mlp.c_fc.weight holds NaN in 1 of 192 elements, the first at [5, 0]");
}

TEST_F(FaultTest, OptimizerStateThatIsNotFiniteIsNamed) {
  const auto program = fresh();
  set(*program, "adam.v", 0, 16, kInfinity);
  step(*program, 0);
  EXPECT_EQ(program->explain_divergence().find("the optimizer state adam.v holds infinity in 1 of "), 0u)
      << program->explain_divergence();
}

// The matmul with a weight of 3e38 overflows.
const std::string kOverflow =
    "gemm NT 16x12x16 for mlp.up.matmul of layer 1 (model.intermediate_size, small.yaml:3) wrote infinity "
    "to "
    "mlp.up.matmul[1] in 2 of 192 elements, the first at [0, 3, 0]; all that it read is finite";

TEST_F(FaultTest, TheFirstKernelIsNamedWithItsLayerItsKeyAndItsTensor) {
  const auto program = fresh();
  set(*program, "mlp.up.weight", 1, 0, 3e38f);
  step(*program, 0);
  EXPECT_EQ(program->explain_divergence(), "first, " + kOverflow);
}

TEST_F(FaultTest, TheMicroBatchIsNamed) {
  const auto program = fresh(", gradient_accumulation_steps: 2");
  step(*program, 3);
  set(*program, "token_embedding", 0, 0, 3e38f);
  step(*program, 0);
  EXPECT_EQ(program->explain_divergence().substr(0, 34), "first, in micro-batch 1 of 2, gemm");
}

TEST_F(FaultTest, GradientsWhoseNormOverflowsAreFoundInTheUpdate) {
  const auto program = fresh();
  program->micro_step(batch_of(0), 1e30f);  // of a loss that is multiplied by it
  program->update();
  EXPECT_TRUE(std::isinf(program->finish_step().grad_norm));
  EXPECT_EQ(program->explain_divergence(),
            "first, kernel grad_square (train.max_grad_norm, by default) wrote infinity to grad_square; all "
            "that it "
            "read is finite");
}

TEST_F(FaultTest, AnEvaluationIsRepeatedToo) {
  const auto program = fresh();
  set(*program, "mlp.up.weight", 1, 0, 3e38f);
  program->evaluate(batch_of(0));
  EXPECT_EQ(program->explain_divergence(), "first, " + kOverflow);
}

TEST_F(FaultTest, WhatDoesNotHappenAgainIsSaid) {
  const auto program = fresh();
  step(*program, 0);
  EXPECT_EQ(program->explain_divergence(),
            "repeated call by call it gives finite numbers only: a fault of the hardware, or of hydrac");
}

TEST_F(FaultTest, CheckedKernelsGiveTheSameResultsAndStopAtTheFirstBadOne) {
  const auto checked = fresh(), plain = fresh();
  checked->check_kernels();
  for (int64_t number = 0; number < 3; ++number) {
    EXPECT_EQ(step(*checked, number).loss, step(*plain, number).loss);
    EXPECT_EQ(checked->evaluate(batch_of(0)), plain->evaluate(batch_of(0)));
  }
  EXPECT_TRUE(state(*checked) == state(*plain));
  set(*checked, "mlp.up.weight", 1, 0, 3e38f);
  EXPECT_EQ(message_of<runtime::RunError>([&] { checked->evaluate(batch_of(0)); }), kOverflow);
}

}  // namespace
}  // namespace hydrac::targets
