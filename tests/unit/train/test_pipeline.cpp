// Programs with several steps in flight: whatever the depth, and whether the device is ahead of the host or
// behind it, a run leaves what a program that works at once leaves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/speed_meter.h"
#include "runtime/train/step_pipeline.h"
#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::TempDir;

// Two steps in flight. `lazy`: the device is behind the host, else ahead of it.
FakeProgram deep(bool lazy, int64_t depth = 2) {
  FakeProgram program;
  program.depth = depth;
  program.lazy = lazy;
  return program;
}

class Pipelined : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { run(small_run(whole)); }

  FakeProgram program(int64_t depth = 2) const { return deep(GetParam(), depth); }

  TempDir dir;
  const std::filesystem::path whole = dir / "whole", run_dir = dir / "run";
  const TrainOptions options = small_run(run_dir);
};

INSTANTIATE_TEST_SUITE_P(Device, Pipelined, testing::Bool(),
                         [](const auto& info) { return info.param ? "Behind" : "Ahead"; });

TEST_P(Pipelined, LeavesWhatAProgramThatWorksAtOnceLeaves) {
  for (const int64_t depth : {2, 3, 7}) {
    std::filesystem::remove_all(run_dir);
    FakeProgram two = program(depth);
    const TrainReport report = train(two, std::make_shared<FakeLoader>(), options);
    EXPECT_EQ(report.last_step, 12);
    EXPECT_EQ(two.most_unfinished, std::min<int64_t>(depth, 4)) << "evaluated every four steps";
    expect_same_end(whole, run_dir);
    EXPECT_EQ(checkpoint_contents(whole, 5), checkpoint_contents(run_dir, 5));
    EXPECT_EQ(checkpoint_contents(whole, 10), checkpoint_contents(run_dir, 10));
  }
}

// While the batches of a later step, with longer sequences, are begun already.
TEST_P(Pipelined, TheLengthOfSequencesIsThatOfTheStepsOwnBatches) {
  class Growing final : public BatchLoader {
   public:
    void fill_train(int64_t first_sample, Batch& out) const override {
      loader_.fill_train(first_sample, out);
      out.stage.sequence_len = 1 + first_sample / 2;
    }
    void fill_eval(int64_t index, Batch& out) const override { loader_.fill_eval(index, out); }
    int64_t eval_batches() const override { return loader_.eval_batches(); }
    int64_t samples_per_epoch() const override { return loader_.samples_per_epoch(); }
    int64_t batch_size() const override { return loader_.batch_size(); }

   private:
    FakeLoader loader_;
  };
  std::filesystem::remove_all(run_dir);
  FakeProgram two = program(3);
  TrainOptions every = options;
  every.log_steps = 1;
  train(two, std::make_shared<Growing>(), every);
  const std::string metrics = test::slurp(run_dir / "metrics.jsonl");
  for (int64_t step = 1; step <= every.max_steps; ++step) {
    const int64_t first = (step - 1) * every.gradient_accumulation_steps;  // micro-batch of the step
    const size_t line = metrics.find(fmt::format("{{\"step\":{},", step));
    ASSERT_NE(line, std::string::npos);
    const std::string record = metrics.substr(line, metrics.find('\n', line) - line);
    EXPECT_NE(record.find(fmt::format("\"sequence_len\":{},", 1 + first)), std::string::npos) << record;
  }
  EXPECT_EQ(test::slurp(whole / "metrics.jsonl").find("sequence_len"), std::string::npos);
}

TEST_P(Pipelined, EveryRecordIsOfItsOwnStep) {
  TrainOptions every = options, every_whole = small_run(whole);
  every.log_steps = every_whole.log_steps = 1;
  run(every, program());
  run(every_whole);
  ASSERT_EQ(records(run_dir).size(), 12U);
  EXPECT_EQ(records(run_dir), records(whole));
}

TEST_P(Pipelined, EvaluatingSavingAndTheLastStepWaitForTheirStepAndNoOther) {
  std::vector<std::pair<int64_t, int64_t>> finished;  // step, unfinished ones when the host had waited for it
  FakeProgram two = program();
  two.in_finish = [&](int64_t step) { finished.emplace_back(step, two.unfinished()); };
  train(two, std::make_shared<FakeLoader>(), options);
  for (const auto& [step, unfinished] : finished) {
    const bool stands_still = step % 4 == 0 || step % 5 == 0 || step == 12;
    EXPECT_EQ(unfinished, stands_still ? 0 : 1) << "step " << step;
  }
  EXPECT_EQ(finished.size(), 12U);
}

TEST_P(Pipelined, ASignalAnywhereCompletesWhatIsBegunAndTheRestIsBitEqual) {
  for (int64_t step = 1; step < 12; ++step) {
    std::filesystem::remove_all(run_dir);
    FakeProgram stopped = program();
    (step % 2 == 0 ? stopped.in_update : stopped.in_finish) = [=](int64_t now) {
      if (now == step) std::raise(SIGINT);
    };
    const TrainReport first = train(stopped, std::make_shared<FakeLoader>(), options);
    EXPECT_GE(first.last_step, step);
    EXPECT_LE(first.last_step, step + 1);
    EXPECT_EQ(first.checkpoint, checkpoint_path(run_dir, first.last_step));
    EXPECT_EQ(resume(options, program()).first_step, first.last_step);
    expect_same_end(whole, run_dir);
  }
}

TEST_P(Pipelined, SessionsOfOtherDepthsContinueEachOther) {
  for (const int64_t step : {3, 6, 7, 9}) {
    FakeProgram session = program(1 + step % 3);
    session.in_finish = [=](int64_t now) {
      if (now == step) std::raise(SIGTERM);
    };
    TrainOptions next = options;
    next.resume = step == 3 ? Resume::never : Resume::required;
    run(next, std::move(session));
  }
  resume(options);
  expect_same_end(whole, run_dir);
}

TEST_P(Pipelined, DivergenceNamesItsStepAndNothingIsSavedAfterIt) {
  for (const int64_t bad : {3, 4, 8, 9, 10, 11, 12}) {
    std::filesystem::remove_all(run_dir);
    FakeProgram diverging = program();
    diverging.in_update = [&](int64_t step) { diverging.loss_factor = step == bad ? NAN : 1; };
    TrainOptions limited = options;
    limited.save_total_limit = 1;
    const std::string message =
        message_of<RunError>([&] { train(diverging, std::make_shared<FakeLoader>(), limited); });
    EXPECT_EQ(message.substr(0, message.find(',')), fmt::format("step {}: the loss is NaN", bad));
    EXPECT_EQ(records(run_dir).back()["step"], bad);
    for (const std::string& name : names_in(run_dir)) {
      if (name.starts_with("checkpoint")) {
        EXPECT_EQ(name, bad > 10 ? "checkpoint-10" : "checkpoint-5");
      }
    }
  }
}

TEST_P(Pipelined, ADeviceThatFailsLeavesARunToResume) {
  for (const int64_t bad : {7, 8, 10, 12}) {
    std::filesystem::remove_all(run_dir);
    FakeProgram failing = program();
    failing.in_finish = [=](int64_t step) {
      if (step == bad) throw RunError("the kernel adamw reads outside of its memory");
    };
    // 8 is evaluated after, 10 saved, 12 the last: the next one is not begun before they are finished.
    EXPECT_EQ(message_of<RunError>([&] { train(failing, std::make_shared<FakeLoader>(), options); }),
              fmt::format("{}: the kernel adamw reads outside of its memory\nthe newest checkpoint is {}",
                          bad == 7 ? "one of the steps 7 to 8" : fmt::format("step {}", bad),
                          checkpoint_path(run_dir, bad > 10 ? 10 : 5).string()));
    resume(options, program());
    expect_same_end(whole, run_dir);
  }
}

TEST_P(Pipelined, AStepWithoutTargetsIsNamedAsItIsBegun) {
  FakeProgram two = program();
  FakeLoader loader;
  loader.without_targets = true;
  const auto source = make_batch_source(std::make_shared<FakeLoader>(loader), 3);
  StepPipeline pipeline(two, *source, 6);
  EXPECT_EQ(
      message_of<InputError>([&] { pipeline.begin(); }),
      "none of the 6 samples of step 7 has a target; raise train.micro_batch_size, or remove what has no "
      "targets from the data");
  EXPECT_EQ(pipeline.unfinished(), 0);
}

TEST(Pipeline, StepsThatOverlapAddUpToTheTimeTheyTook) {
  FakeProgram two = deep(true);
  two.initialize();
  two.in_update = [](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  const auto source = make_batch_source(std::make_shared<FakeLoader>(), 1);
  StepPipeline pipeline(two, *source, 0);
  // Within these calls the first step begins, and the last one ends.
  const auto timed = [](const auto& call) {
    const double before = monotonic_seconds();
    call();
    return std::pair(before, monotonic_seconds());
  };
  constexpr double kRounding = 1e-6;
  double sum = 0;
  const auto first = timed([&] { pipeline.begin(); });
  for (int i = 0; i < 10; ++i) {
    pipeline.begin();
    sum += pipeline.finish().seconds;
  }
  const auto last = timed([&] { sum += pipeline.finish().seconds; });
  EXPECT_GE(sum, 11 * 0.002);
  EXPECT_LE(sum, last.second - first.first + kRounding);
  EXPECT_GE(sum, last.first - first.second - kRounding);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // as if it were evaluated
  double seconds = 0;
  const auto next = timed([&] {
    pipeline.begin();
    seconds = pipeline.finish().seconds;
  });
  EXPECT_LE(seconds, next.second - next.first + kRounding) << "the pause is in no step";
}

TEST(Pipeline, HoldsTheProgramToItsDepth) {
  FakeProgram two = deep(false);
  two.initialize();
  const auto source = make_batch_source(std::make_shared<FakeLoader>(), 1);
  StepPipeline pipeline(two, *source, 4);
  EXPECT_THROW(pipeline.finish(), std::logic_error);
  pipeline.begin();
  EXPECT_TRUE(pipeline.room());
  pipeline.begin();
  EXPECT_FALSE(pipeline.room());
  EXPECT_EQ(pipeline.begun(), 6);
  EXPECT_EQ(message_of<std::logic_error>([&] { pipeline.begin(); }),
            "a step was begun while the program has no room for it");
  EXPECT_EQ(pipeline.finish().step, 5);
  EXPECT_EQ(pipeline.finish().step, 6);
}

}  // namespace
}  // namespace hydrac::runtime
