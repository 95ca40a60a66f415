// A program whose matmuls take other algorithms while it lies in memory trains as one that was made with
// them.
#include <chrono>
#include <cmath>
#include <thread>

#include "targets/cuda/executor.h"
#include "tests/e2e/cli.h"
#include "tests/gpu/gpu_test.h"
#include "tests/unit/core/small_models.h"

namespace hydrac::targets {
namespace {

constexpr int64_t kPositions = 4 * 64, kVocabulary = 512;

class GpuExchange : public test::GpuTest {
 protected:
  std::unique_ptr<CudaProgram> made(const runtime::RecordedChoices& recorded, int64_t micro_batches,
                                    bool graph) {
    const Target& target = *find(detected_gpu().value());
    spec::Spec spec = test::small_spec(
        "hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 1024, "
        "vocab_size: 512, "
        "norm: rmsnorm, position: rope, hidden_act: swiglu",
        "sequence_len: 64, micro_batch_size: 4");
    spec.target = target.name;
    spec.optimizations.precision = target.has_bf16() ? spec::Precision::bf16 : spec::Precision::fp16;
    spec.optimizations.fused_matmuls = spec::FusedMatmuls::none;
    spec.optimizations.cuda_graph = graph;
    spec.optimizations.streams = 2;
    spec.train.gradient_accumulation_steps = micro_batches;
    machines_.push_back(std::make_unique<CudaMachine>(target, e2e::shared_cache(), recorded));
    CudaMachine& machine = *machines_.back();
    auto program =
        std::make_unique<CudaProgram>(driver::compile(spec, machine.compile_options(spec, "")), machine);
    program->initialize();
    return program;
  }

  static double loss_after(CudaProgram& program, int64_t steps) {
    double loss = 0;
    for (int64_t step = 0; step < steps; ++step) {
      runtime::Batch batch;
      for (int64_t i = 0; i < kPositions; ++i) {
        batch.tokens.push_back(static_cast<int32_t>((i * 5 + step) % kVocabulary));
        batch.targets.push_back(static_cast<int32_t>((i * 7 + step) % kVocabulary));
      }
      batch.target_count = kPositions;
      const int64_t micro_batches = program.compiled().spec.train.gradient_accumulation_steps;
      for (int64_t i = 0; i < micro_batches; ++i)
        program.micro_step(batch, 1.0f / static_cast<float>(kPositions * micro_batches));
      program.update();
      loss = program.finish_step().loss;
    }
    return loss;
  }

  std::vector<std::unique_ptr<CudaMachine>> machines_;
};

// The tuner runs steps of two programs in turns.
TEST_F(GpuExchange, WhatPassesBeforeAStepIsNoPartOfItsTime) {
  for (const int64_t micro_batches : {1, 2}) {
    const auto program = made({}, micro_batches, true);
    loss_after(*program, 3);
    program->take_step_times();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    loss_after(*program, 2);
    const std::vector<double> times = program->take_step_times();
    ASSERT_EQ(times.size(), 2u);
    for (const double ms : times) EXPECT_LT(ms, 250);
  }
}

TEST_F(GpuExchange, TrainsAsAProgramThatWasMadeWithTheSameAlgorithms) {
  for (const int64_t micro_batches : {1, 2}) {
    for (const bool graph : {true, false}) {
      const auto program = made({}, micro_batches, graph);
      const double before = loss_after(*program, 3);
      const std::vector<Exchangeable> calls = program->exchangeable(2);
      ASSERT_FALSE(calls.empty());
      program->initialize();
      EXPECT_EQ(loss_after(*program, 3), before) << "measuring has changed nothing";
      for (const Exchangeable& call : calls) {
        EXPECT_LE(call.others.size(), 2u);
        EXPECT_EQ(program->choices().find(call.section, call.key), call.now);
        program->exchange(call.section, call.key, call.others.back());
        EXPECT_EQ(program->choices().find(call.section, call.key), call.others.back());
      }
      program->initialize();
      const double exchanged = loss_after(*program, 3);
      EXPECT_NEAR(exchanged, before, 1e-2 * std::abs(before)) << "the same but for its rounding";
      EXPECT_EQ(loss_after(*made(program->choices(), micro_batches, graph), 3), exchanged);
      for (const Exchangeable& call : calls) program->exchange(call.section, call.key, call.now);
      program->initialize();
      EXPECT_EQ(loss_after(*program, 3), before) << "and back again";
    }
  }
}

}  // namespace
}  // namespace hydrac::targets
