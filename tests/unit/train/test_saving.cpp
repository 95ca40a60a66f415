// When a run saves, and which checkpoints it keeps.
#include <gtest/gtest.h>

#include <csignal>

#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::slurp;
using test::TempDir;
using Names = std::vector<std::string>;

Names checkpoints_in(const std::filesystem::path& run_dir) {
  Names names = names_in(run_dir);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("checkpoint-"); });
  return names;
}

// Evaluations after steps 3, 6, 9, 12; nothing else saves.
TrainOptions best_run(const std::filesystem::path& run_dir) {
  TrainOptions options = small_run(run_dir);
  options.save_steps = 0;
  options.save_total_limit = 1;
  options.save_best = true;
  options.eval_steps = 3;
  return options;
}

// The second evaluation is the best.
TrainReport run_best_at_6(TrainOptions options, int64_t stopped_at = 0) {
  FakeProgram program;
  program.in_evaluate = [&](int64_t step) {
    program.eval_factor = step == 6 ? 0.5f : 1.0f + 0.1f * static_cast<float>(step);
  };
  program.in_update = [&](int64_t step) {
    if (step == stopped_at) std::raise(SIGTERM);
  };
  return train(program, std::make_shared<FakeLoader>(), options);
}

TEST(Saving, AsSoonAsTheNewestCheckpointIsTooOld) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.save_steps = 0;
  options.save_seconds = 1e-9;
  for (const int64_t depth : {1, 3}) {
    FakeProgram program;
    program.depth = depth;
    program.lazy = true;
    options.run_dir = dir / std::to_string(depth);
    run(options, std::move(program));
    EXPECT_EQ(checkpoints_in(options.run_dir).size(), 12u);
  }
  options.run_dir = dir / "rarely";
  options.save_seconds = 1e9;
  run(options);
  EXPECT_EQ(checkpoints_in(options.run_dir), Names{"checkpoint-12"});
}

TEST(Saving, ByTheClockChangesNoResult) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "often");
  run(small_run(dir / "plain"));
  options.save_seconds = 1e-9;
  run(options);
  expect_same_end(dir / "plain", dir / "often");
  expect_same_end(dir / "plain", dir / "often", 5);
}

TEST(Saving, TheBestCheckpointStaysBesideTheNewest) {
  const TempDir dir;
  run_best_at_6(best_run(dir / "run"));
  EXPECT_EQ(checkpoints_in(dir / "run"), (Names{"checkpoint-12", "checkpoint-6", "checkpoint-best"}));
  EXPECT_EQ(std::filesystem::read_symlink(dir / "run/checkpoint-best"), "checkpoint-6");
  EXPECT_EQ(checkpoint_damage(dir / "run/checkpoint-best"), "");
}

TEST(Saving, AResumedRunKnowsTheBestCheckpoint) {
  const TempDir dir;
  run_best_at_6(best_run(dir / "whole"));
  for (const int64_t stopped_at : {2, 6, 7, 10}) {
    TrainOptions options = best_run(dir / std::to_string(stopped_at));
    ASSERT_TRUE(run_best_at_6(options, stopped_at).stopped);
    options.resume = Resume::required;
    run_best_at_6(options);
    EXPECT_EQ(checkpoints_in(options.run_dir), checkpoints_in(dir / "whole"));
    EXPECT_EQ(std::filesystem::read_symlink(options.run_dir / "checkpoint-best"), "checkpoint-6");
    expect_same_end(dir / "whole", options.run_dir);
    expect_same_end(dir / "whole", options.run_dir, 6);
  }
}

TEST(Saving, ARunKilledBeforeItLinkedTheBestDoesSoWhenResumed) {
  const TempDir dir;
  TrainOptions options = best_run(dir / "run");
  run_best_at_6(options, 6);
  std::filesystem::remove(dir / "run/checkpoint-best");
  std::filesystem::create_symlink("checkpoint-3", dir / "run/checkpoint-best.tmp");
  options.resume = Resume::required;
  run_best_at_6(options);
  EXPECT_EQ(checkpoints_in(dir / "run"), (Names{"checkpoint-12", "checkpoint-6", "checkpoint-best"}));
}

}  // namespace
}  // namespace hydrac::runtime
