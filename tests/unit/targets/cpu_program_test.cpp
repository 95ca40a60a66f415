// A program on the processor through the interface of the training loop: its tensors, its results, and that a
// checkpoint holds all it continues from, with dynamic loss scaling as the hardest case. (The processor
// computes in floats whatever the precision; only the specs that users write are refused.)
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "runtime/train/run/run_checkpoint.h"
#include "targets/cpu/executor.h"
#include "tests/unit/core/small_models.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::targets {
namespace {

using runtime::NamedTensor;
using runtime::StepResult;
using test::message_of;
using test::TempDir;

constexpr int64_t kB = 2, kT = 8, kV = 13;

spec::Spec scaled_spec() {
  spec::Spec spec = test::small_spec(
      "hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 12, vocab_size: 13, "
      "norm: layernorm, position: learned, hidden_act: gelu",
      "sequence_len: 8, micro_batch_size: 2, optimizer: {name: adamw, learning_rate: 0.01}");
  spec.optimizations.precision = spec::Precision::fp16;
  return spec;
}

runtime::Batch batch_of(int64_t step) {
  runtime::Batch batch;
  for (int64_t i = 0; i < kB * kT; ++i) {
    batch.tokens.push_back(static_cast<int32_t>((i * 5 + step) % kV));
    batch.targets.push_back(static_cast<int32_t>((i * 7 + step) % kV));
  }
  batch.target_count = kB * kT;
  return batch;
}

class CpuProgramTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { cache_ = std::make_unique<TempDir>(); }  // kernels are compiled once
  static void TearDownTestSuite() { cache_.reset(); }

  static std::unique_ptr<CpuProgram> fresh() {
    auto program = std::make_unique<CpuProgram>(driver::compile(scaled_spec(), {2, ""}), cache_->path());
    program->initialize();
    return program;
  }

  // A step in which gradient element 100 is `bad`, if there is one.
  static StepResult step(CpuProgram& program, int64_t number, std::optional<float> bad = {}) {
    program.micro_step(batch_of(number), 1.0f / (kB * kT));
    if (bad) {
      const ir::ValueId gradients = program.compiled().pack.groups[0].gradients;
      std::vector<float> values = program.read(gradients, 0);
      values[100] = *bad;
      program.write(gradients, 0, values);
    }
    program.update();
    return program.finish_step();
  }

  // Name -> bytes of the tensors of a checkpoint, those of the loss scale left out.
  static std::map<std::string, std::vector<std::byte>> tensors(CpuProgram& program) {
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& list : {program.tensors().parameters, program.tensors().optimizer_state}) {
      for (const NamedTensor& tensor : list) {
        if (tensor.name.starts_with("loss_scale")) continue;
        std::vector<std::byte>& bytes = all[tensor.name];
        bytes.resize(static_cast<size_t>(tensor.bytes()));
        program.download(tensor, bytes);
      }
    }
    return all;
  }

  static float loss_scale(CpuProgram& program) {
    return program.read(program.compiled().graph.state.loss_scale, 0)[0];
  }

  static std::unique_ptr<TempDir> cache_;
};

std::unique_ptr<TempDir> CpuProgramTest::cache_;

TEST_F(CpuProgramTest, NamesTensorsWithTheirTypesAndShapes) {
  const auto owner = fresh();
  CpuProgram& program = *owner;
  std::map<std::string, std::string> state;
  for (const NamedTensor& tensor : program.tensors().optimizer_state)
    state[tensor.name] = std::string(dtype_name(tensor.dtype)) + " " + std::to_string(tensor.shape.size());
  EXPECT_EQ(state, (std::map<std::string, std::string>{{"adam.m", "F32 2"},
                                                       {"adam.step", "I32 0"},
                                                       {"adam.v", "F32 2"},
                                                       {"loss_scale", "F32 0"},
                                                       {"loss_scale.good_steps", "I32 0"}}));
  int layers = 0;
  for (const NamedTensor& tensor : program.tensors().parameters) {
    if (!tensor.name.ends_with("mlp.c_fc.weight")) continue;
    ++layers;
    EXPECT_EQ(tensor.shape, (std::vector<int64_t>{16, 12}));
    EXPECT_TRUE(tensor.transposed);
    EXPECT_EQ(tensor.bytes(), 16 * 12 * 4);
  }
  EXPECT_EQ(layers, 2);
}

TEST_F(CpuProgramTest, ASkippedStepLeavesEveryBitButTheScale) {
  const auto owner = fresh();
  CpuProgram& program = *owner;
  EXPECT_FALSE(step(program, 0).skipped);
  const auto before = tensors(program);
  float scale = 65536;
  int64_t number = 1;
  for (const float bad : {INFINITY, -INFINITY, NAN, 3e38f}) {  // the last is finite, its square is not
    const StepResult result = step(program, number++, bad);
    EXPECT_TRUE(result.skipped);
    EXPECT_FALSE(std::isfinite(result.grad_norm));
    EXPECT_TRUE(std::isfinite(result.loss));
    EXPECT_EQ(result.loss_scale, scale);
    EXPECT_EQ(loss_scale(program), scale /= 2);
    EXPECT_EQ(program.counters().step, number);
    EXPECT_EQ(tensors(program), before);
  }
  const StepResult good = step(program, number);
  EXPECT_FALSE(good.skipped);
  EXPECT_EQ(good.loss_scale, scale);
  EXPECT_NE(tensors(program), before);
}

TEST_F(CpuProgramTest, ACheckpointHoldsAllThatAProgramContinuesFrom) {
  const TempDir dir;
  const auto whole_owner = fresh();
  CpuProgram& whole = *whole_owner;
  step(whole, 0);
  step(whole, 1, INFINITY);
  step(whole, 2);
  runtime::CheckpointContents contents;
  contents.position.counters = whole.counters();
  const std::filesystem::path checkpoint = runtime::save_checkpoint(dir.path(), whole, contents);
  const auto resumed_owner = fresh();
  CpuProgram& resumed = *resumed_owner;
  runtime::restore_program(resumed, checkpoint, runtime::read_position(checkpoint, {}));
  EXPECT_EQ(tensors(resumed), tensors(whole));
  for (int64_t number = 3; number < 6; ++number) {
    const auto bad = number == 4 ? std::optional(NAN) : std::nullopt;
    const StepResult one = step(whole, number, bad), other = step(resumed, number, bad);
    EXPECT_EQ(one.loss, other.loss);
    EXPECT_EQ(one.learning_rate, other.learning_rate);
    EXPECT_EQ(one.loss_scale, other.loss_scale);
    EXPECT_EQ(one.skipped, other.skipped);
  }
  EXPECT_EQ(loss_scale(whole), 16384);
  EXPECT_EQ(loss_scale(resumed), 16384);
  EXPECT_EQ(tensors(resumed), tensors(whole));
}

TEST_F(CpuProgramTest, ReadsEachResultOnce) {
  const auto owner = fresh();
  CpuProgram& program = *owner;
  EXPECT_EQ(message_of<std::logic_error>([&] { program.finish_step(); }), "no step is unfinished");
  program.micro_step(batch_of(0), 1.0f / (kB * kT));
  program.update();
  EXPECT_EQ(message_of<std::logic_error>([&] { program.update(); }),
            "update() before the last step's result was read");
  program.finish_step();
  EXPECT_EQ(message_of<std::logic_error>([&] { program.finish_step(); }), "no step is unfinished");
}

}  // namespace
}  // namespace hydrac::targets
