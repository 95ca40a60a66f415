// Steps that dynamic loss scaling skips: counted and recorded, neither divergence nor lost by a resume.
#include <gtest/gtest.h>

#include <csignal>

#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::slurp;
using test::TempDir;

FakeProgram scaling(std::set<int64_t> overflows, int64_t depth = 2) {
  FakeProgram program;
  program.scales = true;
  program.overflows = std::move(overflows);
  program.depth = depth;
  program.lazy = true;
  return program;
}

std::set<int64_t> from_to(int64_t first, int64_t last) {
  std::set<int64_t> steps;
  for (int64_t step = first; step <= last; ++step) steps.insert(step);
  return steps;
}

TEST(LossScaling, RecordsTheScaleAndTheSkippedStepsSoFar) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.log_steps = 1;
  options.max_steps = 8;
  run(options, scaling({1, 2}));
  std::vector<double> scales, skipped;
  for (const auto& record : records(dir / "run")) {
    scales.push_back(record["loss_scale"]);
    skipped.push_back(record["skipped_steps"]);
    EXPECT_EQ(record["loss"].is_null(), record["step"] <= 2);
    EXPECT_EQ(record["grad_norm"].is_null(), record["step"] <= 2);
  }
  EXPECT_EQ(scales, (std::vector<double>{1024, 512, 256, 256, 256, 256, 512, 512}));
  EXPECT_EQ(skipped, (std::vector<double>{1, 2, 2, 2, 2, 2, 2, 2}));
}

TEST(LossScaling, AProgramThatDoesNotScaleHasNoSuchFields) {
  const TempDir dir;
  run(small_run(dir / "run"));
  const std::string text = slurp(dir / "run/metrics.jsonl") + slurp(dir / "run/checkpoint-12/state.json");
  EXPECT_EQ(text.find("scale"), std::string::npos);
  EXPECT_EQ(text.find("skipped"), std::string::npos);
}

TEST(LossScaling, ASkippedLastStepReportsTheLossBeforeIt) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.log_steps = 1;
  const TrainReport report = run(options, scaling({12}));
  EXPECT_EQ(report.last_step, 12);
  EXPECT_EQ(report.loss, records(dir / "run")[10]["loss"].get<double>());
  EXPECT_TRUE(report.eval_loss.has_value());
  EXPECT_NE(slurp(dir / "run/checkpoint-12/state.json").find("\"skipped_in_a_row\": 1"), std::string::npos);
}

TEST(LossScaling, ResumesInTheMiddleOfSkippedStepsAreBitEqual) {
  const TempDir dir;
  const std::set<int64_t> overflows{1, 2, 5, 6, 7, 11};
  run(small_run(dir / "whole"), scaling(overflows));
  for (int64_t step = 1; step < 12; ++step) {
    const std::filesystem::path run_dir = dir / ("run" + std::to_string(step));
    FakeProgram stopped = scaling(overflows);
    stopped.in_finish = [=](int64_t now) {
      if (now == step) std::raise(SIGINT);
    };
    run(small_run(run_dir), std::move(stopped));
    resume(small_run(run_dir), scaling(overflows, 1));
    expect_same_end(dir / "whole", run_dir);
  }
}

TEST(LossScaling, FiftySkippedStepsInARowEndTheRun) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.max_steps = 100;
  options.eval_steps = options.save_steps = 0;
  run(options, scaling(from_to(12, 60)));  // 49
  options.run_dir = dir / "other";
  EXPECT_EQ(
      message_of<RunError>([&] { run(options, scaling(from_to(12, 90))); }),
      "steps 12 to 61 were all skipped: their gradients hold NaN or infinite values however far the "
      "loss is scaled down; write optimizations.precision: bf16 (fp32 where the device has no bf16), or "
      "lower train.optimizer.learning_rate");
  EXPECT_EQ(records(options.run_dir).back()["step"], 61);
}

TEST(LossScaling, ARowOfSkippedStepsIsCountedAcrossSessions) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.max_steps = 100;
  FakeProgram stopped = scaling(from_to(12, 90));
  stopped.in_finish = [](int64_t now) {
    if (now == 40) std::raise(SIGINT);
  };
  run(options, std::move(stopped));
  const std::string message = message_of<RunError>([&] { resume(options, scaling(from_to(12, 90))); });
  EXPECT_EQ(message.substr(0, message.find(':')), "steps 12 to 61 were all skipped");
}

TEST(LossScaling, ABadValidationLossOfASkippedStepIsDivergenceAllTheSame) {
  const TempDir dir;
  FakeProgram program = scaling({4});
  program.eval_factor = NAN;
  const std::string message = message_of<RunError>([&] { run(small_run(dir / "run"), std::move(program)); });
  EXPECT_EQ(message.substr(0, message.find(',')), "step 4: the validation loss is NaN");
}

}  // namespace
}  // namespace hydrac::runtime
