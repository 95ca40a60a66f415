// An undisturbed run: what it computes, records, saves and prints.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/text/tokenizer/tokenizers.h"
#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::slurp;
using test::TempDir;
using Names = std::vector<std::string>;

TEST(TrainLoop, LeavesTheFolderThatIsPromised) {
  const TempDir dir;
  const TrainReport report = run(small_run(dir / "run"));
  EXPECT_EQ(names_in(dir / "run"),
            (Names{"checkpoint-10", "checkpoint-12", "checkpoint-5", "events.out.tfevents.0000000000.hydrac",
                   "metrics.jsonl", "spec.yaml"}));
  EXPECT_EQ(names_in(dir / "run/checkpoint-12"),
            (Names{"choices.json", "config.json", "manifest.json", "model.safetensors",
                   "optimizer.safetensors", "state.json"}));
  EXPECT_EQ(slurp(dir / "run/spec.yaml"), "name: fake\n");
  EXPECT_EQ(slurp(dir / "run/checkpoint-5/config.json"), "{}\n");
  EXPECT_EQ(report.first_step, 0);
  EXPECT_EQ(report.last_step, 12);
  EXPECT_EQ(report.checkpoint, dir / "run/checkpoint-12");
  EXPECT_FALSE(report.stopped);
  EXPECT_FALSE(report.already_finished);
  EXPECT_GT(report.tokens_per_second, 0);
  EXPECT_GT(report.seconds, 0);
  const auto last = records(dir / "run").back();
  EXPECT_EQ(report.loss, last["loss"].get<double>());
  EXPECT_EQ(report.eval_loss, last["eval_loss"].get<double>());
}

TEST(TrainLoop, EachMicroBatchHearsOfTheWholeStepsTargets) {
  const TempDir dir;
  FakeProgram program;
  TrainOptions options = small_run(dir / "run");
  options.max_steps = 2;
  train(program, std::make_shared<FakeLoader>(), options);
  // Samples 0 to 5: 1 + 4 + 4 + 1 + 4 + 4 targets, and so on for 6 to 11.
  EXPECT_EQ(program.inv_counts, std::vector<float>(6, static_cast<float>(1.0 / 18)));
  program.inv_counts.clear();
  options.gradient_accumulation_steps = 1;
  options.run_dir = dir / "other";
  train(program, std::make_shared<FakeLoader>(), options);
  EXPECT_EQ(program.inv_counts, (std::vector<float>{1.0f / 5, 1.0f / 5}));  // samples 0, 1 and 2, 3
}

TEST(TrainLoop, RecordsLoggedAndEvaluatedStepsOnce) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.log_steps = 3;
  options.max_steps = 10;
  options.peak_flops = 1e12;
  run(options);
  std::vector<int64_t> steps, evaluated;
  for (const auto& record : records(dir / "run")) {
    steps.push_back(record["step"]);
    if (record.contains("eval_loss")) evaluated.push_back(record["step"]);
    EXPECT_TRUE(record.contains("loss") && record.contains("grad_norm"));
    EXPECT_EQ(record["memory_gib"], 0.5);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 4, 6, 8, 9, 10}));
  EXPECT_EQ(evaluated, (std::vector<int64_t>{4, 8, 10}));
  const std::string first = slurp(dir / "run/metrics.jsonl");
  EXPECT_NE(first.find("\"learning_rate\":0.001,"), std::string::npos) << "a float's own digits";
  EXPECT_NE(first.find("\"mfu\":"), std::string::npos);
}

TEST(TrainLoop, EvaluatesTheFirstBatchesByTarget) {
  const TempDir dir;
  FakeProgram program;
  TrainOptions options = small_run(dir / "run");
  options.max_steps = 4;
  const TrainReport report = train(program, std::make_shared<FakeLoader>(), options);
  EXPECT_EQ(program.evaluated, (std::vector<int32_t>{0, 1}));
  // Batch 0 has one target of |w0|, batch 1 has two of |w0| + 1.
  EXPECT_FLOAT_EQ(*report.eval_loss, std::abs(program.weight[0]) + 2.0 / 3);
}

TEST(TrainLoop, EvaluatesAllBatchesWhenThereAreFewer) {
  const TempDir dir;
  FakeProgram program;
  TrainOptions options = small_run(dir / "run");
  options.max_steps = 4;
  options.eval_batches = 50;
  train(program, std::make_shared<FakeLoader>(), options);
  EXPECT_EQ(program.evaluated, (std::vector<int32_t>{0, 1, 2}));
}

TEST(TrainLoop, NeverEvaluatesWithoutValidationDataOrWhenNotAsked) {
  const TempDir dir;
  FakeProgram program;
  TrainOptions options = small_run(dir / "run");
  EXPECT_EQ(train(program, std::make_shared<FakeLoader>(0), options).eval_loss, std::nullopt);
  options.eval_steps = 0;
  EXPECT_EQ(train(program, std::make_shared<FakeLoader>(), options).eval_loss, std::nullopt);
  EXPECT_TRUE(program.evaluated.empty());
}

TEST(TrainLoop, KeepsTheNewestCheckpoints) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.save_steps = 2;
  options.save_total_limit = 2;
  run(options);
  const Names names = names_in(dir / "run");
  EXPECT_EQ((Names{names[0], names[1]}), (Names{"checkpoint-10", "checkpoint-12"}));
  EXPECT_EQ(names.size(), 5U);
}

TEST(TrainLoop, SavesOnceAtTheEndWhenNotAskedToSave) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.save_steps = 0;
  run(options);
  EXPECT_EQ(names_in(dir / "run")[0], "checkpoint-12");
  EXPECT_EQ(names_in(dir / "run").size(), 4U);
}

TEST(TrainLoop, ABatchWithoutTargetsIsAnError) {
  const TempDir dir;
  const auto loader = std::make_shared<FakeLoader>();
  loader->without_targets = true;
  FakeProgram program;
  EXPECT_EQ(
      message_of<InputError>([&] { train(program, loader, small_run(dir / "run")); }),
      "none of the 6 samples of step 1 has a target; raise train.micro_batch_size, or remove what has no "
      "targets from the data");
}

// Validation data without targets, training data with.
class NoEvalTargets final : public BatchLoader {
 public:
  NoEvalTargets() { without_.without_targets = true; }
  void fill_train(int64_t first_sample, Batch& out) const override { with_.fill_train(first_sample, out); }
  void fill_eval(int64_t index, Batch& out) const override { without_.fill_eval(index, out); }
  int64_t eval_batches() const override { return 3; }
  int64_t samples_per_epoch() const override { return 100; }
  int64_t batch_size() const override { return 2; }

 private:
  FakeLoader with_, without_;
};

TEST(TrainLoop, ValidationWithoutTargetsIsAnError) {
  const TempDir dir;
  FakeProgram program;
  EXPECT_EQ(
      message_of<InputError>(
          [&] { train(program, std::make_shared<NoEvalTargets>(), small_run(dir / "run")); }),
      "the first 2 validation batches have no targets; raise train.eval_batches, or set train.eval_steps "
      "to 0");
}

struct Divergence {
  const char* name;
  float FakeProgram::*factor;
  float value;
  const char* message;
};

TEST(TrainLoop, DivergenceEndsTheRunAndKeepsTheLastCheckpoint) {
  const std::string advice =
      ", so the training diverged; lower train.optimizer.learning_rate or raise "
      "train.lr_scheduler.warmup_steps\nthe newest checkpoint is ";
  for (const Divergence& bad :
       {Divergence{"loss", &FakeProgram::loss_factor, NAN, "step 8: the loss is NaN"},
        Divergence{"grad_norm", &FakeProgram::grad_norm_factor, INFINITY,
                   "step 8: the gradient norm is infinite"},
        Divergence{"eval_loss", &FakeProgram::eval_factor, NAN, "step 8: the validation loss is NaN"}}) {
    const TempDir dir;
    TrainOptions options = small_run(dir / "run");
    options.save_total_limit = 1;
    FakeProgram program;
    program.in_update = [&](int64_t step) {
      if (step == 8) program.*bad.factor = bad.value;
    };
    EXPECT_EQ(message_of<RunError>([&] { train(program, std::make_shared<FakeLoader>(), options); }),
              bad.message + advice + (dir / "run/checkpoint-5").string());
    EXPECT_EQ(checkpoint_damage(dir / "run/checkpoint-5"), "");
    EXPECT_EQ(names_in(dir / "run").size(), 4U);
    EXPECT_EQ(records(dir / "run").back()["step"], 8);
    EXPECT_TRUE(records(dir / "run").back()[bad.name].is_null());
  }
}

TEST(TrainLoop, ParametersThatAreNoNumbersAreNotSaved) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.save_total_limit = 1;
  options.eval_steps = 0;
  FakeProgram program;
  program.in_update = [&](int64_t step) {
    if (step == 10) program.momentum[13] = NAN;  // shows in the loss of the next step only
  };
  EXPECT_EQ(
      message_of<RunError>([&] { train(program, std::make_shared<FakeLoader>(), options); }),
      "after step 10: the parameter \"bias\" holds NaN or infinite values, so the training diverged and "
      "nothing is saved; lower train.optimizer.learning_rate or raise train.lr_scheduler.warmup_steps\n"
      "the newest checkpoint is " +
          (dir / "run/checkpoint-5").string());
  EXPECT_EQ(names_in(dir / "run")[0], "checkpoint-5");
  EXPECT_EQ(names_in(dir / "run").size(), 4U);
}

TEST(TrainLoop, PrintsProgressSavesAndTheSample) {
  const TempDir dir;
  const Printed printed;
  TrainOptions options = small_run(dir / "run");
  const auto tokenizer = make_byte_tokenizer();
  options.quiet = false;
  options.out = printed.file();
  options.eval_steps = 0;
  options.tokenizer = tokenizer.get();
  options.sample = {"ab\x1b", 3, {}};
  options.max_steps = 5;
  FakeProgram program;
  program.favourite = 1000;  // end_of_text at once
  train(program, std::make_shared<FakeLoader>(), options);
  std::vector<std::string> begins;
  std::istringstream lines(printed.text());
  for (std::string line; std::getline(lines, line);) begins.push_back(line.substr(0, line.find("  ")));
  EXPECT_EQ(begins, (Names{"step 2/5", "step 4/5", "step 5/5", "saved " + (dir / "run/checkpoint-5").string(),
                           "", "ab\xEF\xBF\xBD"}));
}

TEST(TrainLoop, SpeedCountsNeitherEvaluatingNorSaving) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  options.eval_steps = options.save_steps = options.log_steps = 1;
  options.tokens_per_step = 24;
  FakeProgram program;
  const auto pause = [](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  program.in_evaluate = pause;
  program.in_download = pause;
  const TrainReport report = train(program, std::make_shared<FakeLoader>(), options);
  const double paused = 12 * 3 * 0.020,
               step = 24 / report.tokens_per_second;  // of half of the steps at least
  EXPECT_GT(report.seconds, paused);
  EXPECT_LT(5 * step, report.seconds - paused) << "whatever else a busy machine does";
}

TEST(TrainLoop, QuietPrintsNothing) {
  const TempDir dir;
  const Printed printed;
  TrainOptions options = small_run(dir / "run");
  const auto tokenizer = make_byte_tokenizer();
  options.out = printed.file();
  options.tokenizer = tokenizer.get();
  options.sample.max_new_tokens = 5;
  run(options);
  run(options);
  resume(options);
  EXPECT_EQ(printed.text(), "");
}

TEST(TrainLoop, APromptThatHasNoIdsIsFoundBeforeTheRun) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  const auto tokenizer = make_char_tokenizer([](const TextVisitor& visit) { visit("abc"); });
  options.tokenizer = tokenizer.get();
  options.sample = {"abd", 1, {}};
  EXPECT_THROW(run(options), InputError);
  EXPECT_FALSE(std::filesystem::exists(dir / "run"));
}

}  // namespace
}  // namespace hydrac::runtime
