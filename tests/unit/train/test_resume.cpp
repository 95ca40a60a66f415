// Stopping and continuing: whatever happens in between, the run ends as if nothing had.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/run/run_start.h"
#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::slurp;
using test::spill;
using test::TempDir;

// A program during whose update number `step` the signal comes.
FakeProgram signalled_at(int64_t step, int signal = SIGINT) {
  FakeProgram program;
  program.in_update = [=](int64_t now) {
    if (now == step) std::raise(signal);
  };
  return program;
}

class ResumedRun : public testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGHUP, SIG_DFL);  // also where the tests run under nohup
    run(small_run(whole));
  }
  TempDir dir;
  const std::filesystem::path whole = dir / "whole", run_dir = dir / "run";
  const TrainOptions options = small_run(run_dir);
};

TEST_F(ResumedRun, ASignalAtAnyStepSavesThatStepAndTheRestIsBitEqual) {
  for (int64_t step = 1; step < 12; ++step) {
    std::filesystem::remove_all(run_dir);
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const TrainReport first = run(options, signalled_at(step, signals[step % 3]));
    EXPECT_TRUE(first.stopped);
    EXPECT_EQ(first.last_step, step);
    EXPECT_EQ(first.checkpoint, checkpoint_path(run_dir, step));
    const TrainReport second = resume(options);
    EXPECT_FALSE(second.stopped);
    EXPECT_EQ(second.first_step, step);
    EXPECT_EQ(second.last_step, 12);
    expect_same_end(whole, run_dir);
  }
}

TEST_F(ResumedRun, ManySmallSessionsEqualOne) {
  run(options, signalled_at(1));
  for (int64_t step = 2; step < 12; ++step) resume(options, signalled_at(step));
  resume(options);
  expect_same_end(whole, run_dir);
}

TEST_F(ResumedRun, ASignalDuringEvaluationLetsItFinish) {
  FakeProgram program;
  program.in_evaluate = [&](int64_t) {
    if (program.evaluated.empty()) std::raise(SIGINT);
  };
  const TrainReport report = train(program, std::make_shared<FakeLoader>(), options);
  EXPECT_EQ(report.last_step, 4);
  EXPECT_EQ(program.evaluated.size(), 2U);
  EXPECT_EQ(records(run_dir).back(), records(whole)[1]);
  resume(options);
  expect_same_end(whole, run_dir);
}

TEST_F(ResumedRun, ASignalDuringSavingLetsItFinishAndSavesOnce) {
  int saves = 0;
  FakeProgram program;
  program.in_download = [&](int64_t step) {
    EXPECT_EQ(step, 5);
    if (++saves == 1) std::raise(SIGINT);
  };
  EXPECT_EQ(run(options, std::move(program)).last_step, 5);
  EXPECT_EQ(saves, 1);
  resume(options);
  expect_same_end(whole, run_dir);
}

TEST_F(ResumedRun, ASignalDuringTheLastStepIsNoStop) {
  const TrainReport report = run(options, signalled_at(12));
  EXPECT_FALSE(report.stopped);
  EXPECT_EQ(report.last_step, 12);
  expect_same_end(whole, run_dir);
}

TEST_F(ResumedRun, WithAnotherAccumulationTheLoaderGoesOnAtItsSample) {
  run(options, signalled_at(6));
  TrainOptions other = options;
  other.gradient_accumulation_steps = 1;  // the caller's identity allows it: samples 36, 37 come next
  other.max_steps = 7;
  FakeProgram program;
  other.resume = Resume::required;
  train(program, std::make_shared<FakeLoader>(), other);
  EXPECT_EQ(program.inv_counts, std::vector<float>{1.0f / 5});
  EXPECT_NE(slurp(run_dir / "checkpoint-7/state.json").find("\"samples_seen\": 38"), std::string::npos);
}

TEST_F(ResumedRun, ACompleteRunSaysSoAndStaysAsItIs) {
  const auto before = names_in(whole);
  const std::string metrics = slurp(whole / "metrics.jsonl");
  const Printed printed;
  TrainOptions again = small_run(whole);
  again.quiet = false;
  again.out = printed.file();
  again.spec_text = "another";
  const TrainReport report = resume(again);
  EXPECT_TRUE(report.already_finished);
  EXPECT_FALSE(report.stopped);
  EXPECT_EQ(report.last_step, 12);
  EXPECT_EQ(report.checkpoint, whole / "checkpoint-12");
  EXPECT_EQ(report.loss, records(whole).back()["loss"].get<double>());
  EXPECT_EQ(report.eval_loss, records(whole).back()["eval_loss"].get<double>());
  EXPECT_EQ(printed.text(), whole.string() + " is complete: step 12 of 12; nothing to resume\n");
  EXPECT_EQ(names_in(whole), before);
  EXPECT_EQ(slurp(whole / "metrics.jsonl"), metrics);
  EXPECT_EQ(slurp(whole / "spec.yaml"), "name: fake\n");
}

TEST_F(ResumedRun, MoreStepsContinueACompleteRunWhereTheIdentityAllowsIt) {
  TrainOptions longer = small_run(run_dir);
  longer.max_steps = 17;
  run(longer);
  TrainOptions extended = small_run(whole);
  extended.max_steps = 17;
  EXPECT_EQ(resume(extended).first_step, 12);
  EXPECT_EQ(checkpoint_contents(whole, 17).at("model.safetensors"),
            checkpoint_contents(run_dir, 17).at("model.safetensors"));
}

TEST_F(ResumedRun, AnotherIdentityIsListedKeyByKey) {
  TrainOptions first = options;
  first.identity["optimizations.loss"] = "\"materialized\"";  // a spec's values are JSON
  run(first, signalled_at(6));
  TrainOptions other = first;
  other.identity["train.label_smoothing"] = "0.1";
  other.identity["train.seed"] = "8\n9";
  other.identity["optimizations.loss"] = "\"chunked\"";
  const auto before = names_in(run_dir);
  const std::string expected = (run_dir / "checkpoint-6").string() +
                               " cannot be resumed, because what decides the results has changed:\n"
                               "  optimizations.loss: \"materialized\" in the checkpoint, \"chunked\" now\n"
                               "  train.label_smoothing: nothing in the checkpoint, 0.1 now\n"
                               "  train.seed: 7 in the checkpoint, \"8\\\\n9\" now\n"
                               "change it back to continue this run, or start a new one without --resume "
                               "(this one is then moved aside, "
                               "not overwritten)";
  EXPECT_EQ(message_of<InputError>([&] { resume(other); }), expected);
  other.resume = Resume::required;
  EXPECT_EQ(message_of<InputError>([&] { check_run(other); }), expected);
  EXPECT_EQ(names_in(run_dir), before);
  EXPECT_EQ(resume(first).last_step, 12);
}

TEST_F(ResumedRun, ADifferenceAtTheEndOfALongValueIsSeen) {
  TrainOptions first = options, other = options;
  first.identity["data.path"] = std::string(5000, 'x') + "1";
  other.identity["data.path"] = std::string(5000, 'x') + "2";
  run(first, signalled_at(6));
  EXPECT_NE(message_of<InputError>([&] { resume(other); }).find("cannot be resumed"), std::string::npos);
}

TEST_F(ResumedRun, IfPossibleContinuesARunAndBeginsWhereThereIsNone) {
  TrainOptions requeued = options;
  requeued.resume = Resume::if_possible;
  EXPECT_EQ(run(requeued, signalled_at(3)).first_step, 0);
  EXPECT_EQ(run(requeued, signalled_at(8)).first_step, 3);
  EXPECT_EQ(run(requeued).first_step, 8);
  expect_same_end(whole, run_dir);
  EXPECT_TRUE(run(requeued).already_finished);
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"run", "whole"}));
}

TEST_F(ResumedRun, IfPossibleRefusesWhatResumeRefuses) {
  run(options, signalled_at(6));
  TrainOptions other = options;
  other.identity["train.seed"] = "8";
  const std::string refusal = message_of<InputError>([&] { resume(other); });
  other.resume = Resume::if_possible;
  EXPECT_EQ(message_of<InputError>([&] { run(other); }), refusal);
  EXPECT_EQ(message_of<InputError>([&] { check_run(other); }), refusal);
  std::filesystem::resize_file(run_dir / "checkpoint-6/model.safetensors", 10);
  std::filesystem::resize_file(run_dir / "checkpoint-5/model.safetensors", 10);
  other.identity = options.identity;
  EXPECT_NE(message_of<InputError>([&] { run(other); }).find("has no intact checkpoint"), std::string::npos);
}

TEST_F(ResumedRun, WithoutARunIsAnError) {
  const std::string expected = run_dir.string() + " holds no run to resume; leave out --resume to begin one";
  TrainOptions wanted = options;
  wanted.resume = Resume::required;
  EXPECT_EQ(message_of<InputError>([&] { resume(options); }), expected);
  EXPECT_EQ(message_of<InputError>([&] { check_run(wanted); }), expected);
  EXPECT_FALSE(std::filesystem::exists(run_dir));
  std::filesystem::create_directory(run_dir);
  EXPECT_EQ(message_of<InputError>([&] { resume(options); }), expected);
  EXPECT_EQ(message_of<InputError>([&] { check_run(wanted); }), expected);
}

TEST_F(ResumedRun, ARunThatHadSavedNothingBeginsAgainAndKeepsItsRecords) {
  FakeProgram program;
  program.in_update = [](int64_t step) {
    if (step == 5) throw RunError("the power went");
  };
  EXPECT_EQ(message_of<RunError>([&] { run(options, std::move(program)); }), "step 5: the power went");
  const Printed printed;
  TrainOptions loud = options;
  loud.quiet = false;
  loud.out = printed.file();
  const TrainReport report = resume(loud);
  EXPECT_EQ(report.first_step, 0);
  const std::string here = run_dir.string();
  EXPECT_EQ(printed.text().substr(0, printed.text().find("step 2")),
            "the run in " + here + " had saved nothing yet: beginning at step 0\nmoved the earlier run in " +
                here + " to " + here + ".1\n");
  EXPECT_EQ(records(here + ".1").size(), 2U);
  expect_same_end(whole, run_dir);
}

TEST_F(ResumedRun, ADamagedCheckpointIsPassedOver) {
  run(options, signalled_at(11));
  std::filesystem::resize_file(run_dir / "checkpoint-11/model.safetensors", 10);
  const Printed printed;
  TrainOptions loud = options;
  loud.quiet = false;
  loud.out = printed.file();
  EXPECT_EQ(resume(loud).first_step, 10);
  const std::string text = printed.text();
  EXPECT_EQ(text.substr(0, text.find(": model.safetensors has 10 bytes")),
            "passed over a damaged checkpoint, " + (run_dir / "checkpoint-11").string());
  expect_same_end(whole, run_dir);
}

TEST_F(ResumedRun, WhenAllCheckpointsAreDamagedNothingIsTouched) {
  TrainOptions limited = options;
  limited.save_total_limit = 1;
  run(limited, signalled_at(6));
  spill(run_dir / "checkpoint-6/state.json", "{}");
  const std::string metrics = slurp(run_dir / "metrics.jsonl");
  const std::string message = message_of<InputError>([&] { resume(limited); });
  const std::string checkpoint = (run_dir / "checkpoint-6").string();
  EXPECT_EQ(message.substr(0, message.find(": state.json")),
            run_dir.string() + " has no intact checkpoint to resume from:\n  " + checkpoint);
  EXPECT_EQ(message.substr(message.find_last_of('\n')),
            "\nrestore one of them, or start a new run without --resume (this one is then moved aside, not "
            "overwritten)");
  EXPECT_EQ(slurp(run_dir / "metrics.jsonl"), metrics);
  EXPECT_TRUE(std::filesystem::exists(checkpoint));
}

TEST_F(ResumedRun, RecordsAfterTheCheckpointAreWrittenOnce) {
  FakeProgram program;
  program.in_update = [](int64_t step) {
    if (step == 10) throw RunError("the power went");
  };
  EXPECT_EQ(message_of<RunError>([&] { run(options, std::move(program)); }),
            "step 10: the power went\nthe newest checkpoint is " + (run_dir / "checkpoint-5").string());
  EXPECT_EQ(records(run_dir).back()["step"], 8);
  EXPECT_EQ(resume(options).first_step, 5);
  expect_same_end(whole, run_dir);
}

TEST_F(ResumedRun, AStateWithImpossibleCountsIsAnError) {
  const std::filesystem::path file = whole / "checkpoint-12/state.json";
  std::string state = slurp(file);
  state.replace(state.find("\"samples_seen\": ") + 16, 0, "-");
  spill(file, state);
  EXPECT_EQ(message_of<InputError>([&] { read_position(whole / "checkpoint-12", options.identity); }),
            file.string() + ": samples_seen is -72, below 0");
}

TEST_F(ResumedRun, CheckpointsThatAKilledRunHadNoTimeToRemoveGo) {
  TrainOptions limited = small_run(whole);
  limited.save_total_limit = 2;
  resume(limited);
  EXPECT_FALSE(std::filesystem::exists(whole / "checkpoint-5"));
  EXPECT_TRUE(std::filesystem::exists(whole / "checkpoint-10"));
  EXPECT_TRUE(std::filesystem::exists(whole / "checkpoint-12"));
}

TEST_F(ResumedRun, TheNewSpecTextIsKept) {
  run(options, signalled_at(6));
  TrainOptions changed = options;
  changed.spec_text = "name: fake\nlog_steps: 2\n";
  resume(changed);
  EXPECT_EQ(slurp(run_dir / "spec.yaml"), changed.spec_text);
}

TEST_F(ResumedRun, LoadParametersFillsThemFromACheckpointAlone) {
  FakeProgram trained, sampling;
  train(trained, std::make_shared<FakeLoader>(), options);
  sampling.initialize();
  load_parameters(sampling, run_dir / "checkpoint-12");
  EXPECT_EQ(sampling.weight, trained.weight);
  EXPECT_EQ(sampling.bias, trained.bias);
  EXPECT_EQ(sampling.counters().step, 0);
}

// The same model without its bias.
class Biasless final : public FakeProgram {
 public:
  int uploads = 0;
  ProgramTensors tensors() override {
    return {.parameters = {{.name = "weight", .shape = {4, 3}, .transposed = true}}};
  }
  void upload(const NamedTensor&, SafetensorsDtype, std::span<const std::byte>) override { ++uploads; }
};

TEST_F(ResumedRun, ParametersOfAnotherModelAreAnError) {
  Biasless other;
  EXPECT_EQ(message_of<InputError>([&] { load_parameters(other, whole / "checkpoint-12"); }),
            (whole / "checkpoint-12/model.safetensors").string() +
                ": the model has no tensor \"bias\"; the file belongs to another one");
  EXPECT_EQ(other.uploads, 0) << "nothing was read";
}

FakeProgram with_library(const std::string& library, int64_t stop_at = -1) {
  FakeProgram program = signalled_at(stop_at);
  program.chosen.set("blas", "library", library);
  return program;
}

TEST_F(ResumedRun, ChoicesOfAnotherMachineAreWarnedOf) {
  TrainOptions stopped = options;
  run(stopped, with_library("onednn", 4));
  const std::string problem = "results will differ in their last bits from those that " +
                              (run_dir / "checkpoint-4").string() +
                              " would have led to:\n  blas library: onednn in the checkpoint, openblas now";
  TrainOptions exact = options;
  exact.exact = true;
  EXPECT_EQ(message_of<InputError>([&] { resume(exact, with_library("openblas")); }),
            problem + "\nrun it where they are the same, or without --exact to continue all the same");
  testing::internal::CaptureStderr();
  resume(options, with_library("openblas"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: " + problem + "\n");
  EXPECT_EQ(read_choices(run_dir / "checkpoint-12"), with_library("openblas").chosen);
}

TEST_F(ResumedRun, TheSameChoicesAreNotWarnedOfAndAreGivenToTheProgram) {
  run(options, with_library("onednn", 4));
  TrainOptions exact = options;
  exact.exact = true;
  exact.resume = Resume::required;
  EXPECT_EQ(check_run(exact), with_library("onednn").chosen);
  testing::internal::CaptureStderr();
  resume(exact, with_library("onednn"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// A run that is killed before a checkpoint has its name is continued from it all the same.
TEST_F(ResumedRun, TheChoicesOfACheckpointThatHasNoNameYetAreGivenToTheProgram) {
  run(options, with_library("onednn", 4));
  std::filesystem::rename(run_dir / "checkpoint-4", run_dir / "checkpoint-4.tmp-1");
  TrainOptions exact = options;
  exact.exact = true;
  exact.resume = Resume::required;
  EXPECT_EQ(check_run(exact), with_library("onednn").chosen);
  EXPECT_TRUE(std::filesystem::exists(run_dir / "checkpoint-4.tmp-1"));  // and nothing was changed
  EXPECT_EQ(resume(exact, with_library("onednn")).first_step, 4);
}

TEST_F(ResumedRun, ACheckpointWithoutRecordedChoicesIsWarnedOf) {
  run(options, with_library("onednn", 4));
  // As an earlier version wrote it: without the file, and without its entry in the manifest.
  const std::filesystem::path checkpoint = run_dir / "checkpoint-4";
  auto manifest = nlohmann::json::parse(slurp(checkpoint / "manifest.json"));
  auto& files = manifest["files"];
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i]["name"] == "choices.json") files.erase(i);
  }
  spill(checkpoint / "manifest.json", manifest.dump());
  std::filesystem::remove(checkpoint / "choices.json");
  testing::internal::CaptureStderr();
  resume(options, with_library("onednn"));
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: " + checkpoint.string() +
          " does not record which libraries and algorithms it was computed with; if they are others now, "
          "results differ in their last bits\n");
}

}  // namespace
}  // namespace hydrac::runtime
