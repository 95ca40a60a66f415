// A run that is stopped or killed and continued ends as one that never was: byte for byte.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

void expect_same_end(const fs::path& run, const fs::path& uninterrupted,
                     const std::string& last = "checkpoint-12") {
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "state.json", "config.json", "manifest.json"}) {
    const fs::path file = fs::path(last) / name;
    EXPECT_TRUE(slurp(run / file) == slurp(uninterrupted / file)) << file << " differs";
  }
  EXPECT_EQ(without_timing(slurp(run / "metrics.jsonl")),
            without_timing(slurp(uninterrupted / "metrics.jsonl")));
}

std::string steps(int64_t count) {
  return "train.max_steps=" + std::to_string(count);
}

// Whatever the number of steps, the first ones are the same.
const std::string kConstant = "train.lr_scheduler.name=constant";

// Of a run that cannot have ended before a signal comes, however late that is.
const std::string kForever = steps(100'000'000);

int64_t newest_checkpoint(const fs::path& run) {
  int64_t newest = -1;
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("checkpoint-")) newest = std::max<int64_t>(newest, std::stoll(name.substr(11)));
  }
  return newest;
}

void expect_same_checkpoint(const fs::path& a, const fs::path& b) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"})
    EXPECT_TRUE(slurp(a / name) == slurp(b / name)) << name << " differs";
}

// The only checkpoint is the one it saves on its way out.
TEST(Resume, AStoppedRunSaysSoByItsExitCodeAndEndsAsIfItHadNotBeen) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Workplace place;
    const std::string never = "train.save_steps=0";
    Process process(place.path(), {"base.yaml", kForever, never, kConstant});
    ASSERT_TRUE(process.wait_for("step 3/"));
    process.send(signal);
    const Outcome stopped = process.finish();
    ASSERT_EQ(stopped.code, 4) << stopped.err;
    EXPECT_NE(stopped.out.find(" of 100000000; --resume continues it\n"), std::string::npos) << stopped.out;
    const int64_t at = newest_checkpoint(place / "runs/base"), end = at + 3;
    ASSERT_GE(at, 3);
    const Outcome resumed = place.run({"base.yaml", steps(end), never, kConstant, "--resume"});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_NE(resumed.out.find("continuing from runs/base/checkpoint-" + std::to_string(at) + "\n"),
              std::string::npos)
        << resumed.out;
    ASSERT_EQ(place.run({"-q", "base.yaml", steps(end), never, kConstant, "output.dir=runs/whole"}).code, 0);
    const std::string last = "checkpoint-" + std::to_string(end);
    expect_same_checkpoint(place / "runs/base" / last, place / "runs/whole" / last);
  }
}

// More lines than a pipe holds, so that it is still running when its reader goes.
TEST(Resume, ARunWhoseReaderIsGoneGoesOnToItsEnd) {
  const Workplace place;
  Process process(place.path(), {"base.yaml", steps(1500), "train.save_steps=0", "train.eval_steps=1500",
                                 "train.micro_batch_size=1", "train.gradient_accumulation_steps=1"});
  ASSERT_TRUE(process.wait_for("step 1/"));
  process.close_output();
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "cannot write standard output: Broken pipe; going on without it\n");
  EXPECT_EQ(newest_checkpoint(place / "runs/base"), 1500);
  EXPECT_NE(slurp(place / "runs/base/metrics.jsonl").find("{\"step\":1500,"), std::string::npos);
}

TEST(Resume, MoreStepsContinueACompleteRun) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", kConstant}).code, 0);
  const Outcome longer = place.run({"base.yaml", kConstant, steps(16), "--resume"});
  ASSERT_EQ(longer.code, 0) << longer.err;
  EXPECT_NE(longer.out.find("continuing from runs/base/checkpoint-12\n"), std::string::npos) << longer.out;
  ASSERT_EQ(place.run({"-q", "base.yaml", kConstant, steps(16), "output.dir=runs/whole"}).code, 0);
  expect_same_checkpoint(place / "runs/base/checkpoint-16", place / "runs/whole/checkpoint-16");
}

TEST(Resume, MomentsOfEightBitsAreTakenUpAsTheyAreAndNotAsOthers) {
  const Workplace place;
  const std::string int8 = "optimizations.optimizer_state=int8";
  ASSERT_EQ(place.run({"-q", "base.yaml", kConstant, int8}).code, 0);
  EXPECT_NE(slurp(place / "runs/base/checkpoint-12/optimizer.safetensors")
                .find("\"adam.v.codes\":{\"dtype\":\"U8\","),
            std::string::npos);
  const Outcome other = place.run({"base.yaml", kConstant, steps(16), "--resume"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("\n  optimizations.optimizer_state: \"int8\" in the checkpoint, \"fp32\" now\n"),
            std::string::npos)
      << other.err;
  const Outcome longer = place.run({"-q", "base.yaml", kConstant, int8, steps(16), "--resume"});
  ASSERT_EQ(longer.code, 0) << longer.err;
  ASSERT_EQ(place.run({"-q", "base.yaml", kConstant, int8, steps(16), "output.dir=runs/whole"}).code, 0);
  expect_same_checkpoint(place / "runs/base/checkpoint-16", place / "runs/whole/checkpoint-16");
}

double learning_rate_of(const fs::path& run, int64_t step) {
  for (const nlohmann::json& record : records_of(run))
    if (record["step"] == step) return record["learning_rate"];
  ADD_FAILURE() << "no step " << step;
  return 0;
}

TEST(Resume, TheScheduleOfARunWithMoreStepsIsThatOfTheNewSpec) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  const Outcome longer = place.run({"-q", "base.yaml", steps(24), "--resume"});
  ASSERT_EQ(longer.code, 0) << longer.err;
  ASSERT_EQ(place.run({"-q", "base.yaml", steps(24), "output.dir=runs/whole"}).code, 0);
  for (const int64_t step : {13, 18, 24})
    EXPECT_EQ(learning_rate_of(place / "runs/base", step), learning_rate_of(place / "runs/whole", step));
  EXPECT_LT(learning_rate_of(place / "runs/base", 12), learning_rate_of(place / "runs/base", 13));
}

// In the middle of a window of `patience` steps before any cut, in the middle of one after cuts, and where a
// window ends: threshold 0.9 is never reached, so that every window but the first cuts.
TEST(Resume, AScheduleThatFollowsTheLossGoesOnInTheMiddleOfAWindow) {
  const Workplace place;
  const Words adaptive = {"-q", "base.yaml",
                          "train.lr_scheduler={name: adaptive, patience: 3, threshold: 0.9}",
                          "train.lr_scheduler.warmup_steps=1"};
  ASSERT_EQ(place.run(with(adaptive, {"output.dir=runs/whole"})).code, 0);
  EXPECT_EQ(learning_rate_of(place / "runs/whole", 7), learning_rate_of(place / "runs/whole", 4));
  EXPECT_LT(learning_rate_of(place / "runs/whole", 8), learning_rate_of(place / "runs/whole", 7));
  EXPECT_LT(learning_rate_of(place / "runs/whole", 11), learning_rate_of(place / "runs/whole", 8));
  for (const int64_t first : {1, 3, 4, 6, 7, 9}) {
    const std::string folder = "runs/" + std::to_string(first);
    ASSERT_EQ(place.run(with(adaptive, {"output.dir=" + folder, steps(first)})).code, 0);
    const Outcome rest = place.run(with(adaptive, {"output.dir=" + folder, "--resume"}));
    ASSERT_EQ(rest.code, 0) << rest.err;
    expect_same_checkpoint(place / folder / "checkpoint-12", place / "runs/whole/checkpoint-12");
  }
}

// Within the curriculum, where it ends, and behind it, while sequences grow too; the one that goes on may be
// two ranks.
TEST(Resume, ACurriculumGoesOnWhereItWas) {
  const Workplace place;
  const Words curriculum = {"base.yaml", "data.curriculum={steps: 8, start: 0.2}",
                            "train.sequence_warmup={start: 4, steps: 6}", "train.save_steps=1",
                            "train.save_total_limit=0"};
  const Outcome whole = place.run(with(curriculum, {"output.dir=runs/whole", "train.log_steps=1"}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("curriculum: 8 steps draw from the first 20% of these and ever more, in the order "
                           "of the files\n"),
            std::string::npos)
      << whole.out;
  EXPECT_NE(whole.out.find("  share 0.20"), std::string::npos) << whole.out;
  const std::vector<nlohmann::json> records = records_of(place / "runs/whole");
  ASSERT_EQ(records.size(), 12u);
  EXPECT_EQ(records[0]["curriculum_share"], 0.2);
  EXPECT_NEAR(records[4]["curriculum_share"].get<double>(), std::sqrt(0.5 * 0.96 + 0.04), 1e-12);
  EXPECT_FALSE(records[8].contains("curriculum_share"));
  for (const int killed_at : {2, 7, 9}) {
    const std::string folder = "output.dir=runs/" + std::to_string(killed_at);
    Process process(place.path(), with(curriculum, {folder, "train.log_steps=1"}));
    ASSERT_TRUE(process.wait_for("step " + std::to_string(killed_at) + "/"));
    process.send(SIGKILL);
    process.finish();
    Words rest = with(curriculum, {folder, "-q", "--resume", "auto"});
    if (killed_at == 7) rest = with(rest, {"parallel.data=2", "train.gradient_accumulation_steps=1"});
    const Outcome resumed = place.run(rest);
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    expect_same_checkpoint(place / "runs" / std::to_string(killed_at) / "checkpoint-12",
                           place / "runs/whole/checkpoint-12");
  }
  const Outcome other =
      place.run(with(curriculum, {"output.dir=runs/2", "data.curriculum.start=0.3", steps(16), "--resume"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("\n  data.curriculum.start: 0.2 in the checkpoint, 0.3 now\n"), std::string::npos)
      << other.err;
}

TEST(Resume, WhatMustNotChangeIsNamedWithBothValues) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  const Outcome outcome = place.run({"base.yaml", "--resume", steps(16), "optimizations.loss=chunked"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(
      outcome.err.find("\n  optimizations.loss: \"materialized\" in the checkpoint, \"chunked\" now\nchange"),
      std::string::npos)
      << outcome.err;
}

TEST(Resume, AutoBeginsContinuesAndIsContentWithTheEnd) {
  const Workplace place;
  const Words command = {"base.yaml", "--resume", "auto", "train.save_steps=1", kConstant};
  Process process(place.path(), with(command, {kForever}));
  ASSERT_TRUE(process.wait_for("saved "));
  process.send(SIGKILL);
  EXPECT_EQ(process.finish().code, 1000 + SIGKILL);
  const int64_t end = newest_checkpoint(place / "runs/base") + 3;
  const Outcome rest = place.run(with(command, {steps(end)}));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find("continuing from runs/base/checkpoint-"), std::string::npos) << rest.out;
  const Outcome again = place.run(with(command, {steps(end)}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(
      again.out.find(fmt::format("runs/base is complete: step {} of {}; nothing to resume\n", end, end)),
      std::string::npos)
      << again.out;
  EXPECT_FALSE(fs::exists(place / "runs/base.1"));
}

// Killed right after some step or save, or some milliseconds later: in the middle of a step, of a write, of a
// start.
TEST(Resume, KilledAgainAndAgainTheRunEndsAsIfItHadNotBeen) {
  const Workplace place;
  const Words command = {"base.yaml", kConstant, "train.save_steps=1", "train.save_total_limit=3"};
  std::mt19937 random(11);
  for (int attempt = 0; attempt < 8; ++attempt) {
    Words words = with(command, {kForever});
    if (fs::exists(place / "runs/base/metrics.jsonl")) words.push_back("--resume");
    Process process(place.path(), words);
    const bool after_a_save = attempt % 3 != 2;
    ASSERT_TRUE(process.wait_for(after_a_save ? "saved " : "step "));
    if (attempt % 2 == 1) ::usleep(random() % 4000);
    process.send(SIGKILL);
    ASSERT_EQ(process.finish().code, 1000 + SIGKILL);
  }
  const int64_t end = newest_checkpoint(place / "runs/base") + 3;
  const Outcome last = place.run(with(command, {steps(end), "--resume"}));
  ASSERT_EQ(last.code, 0) << last.err;
  ASSERT_EQ(place.run(with(command, {"-q", steps(end), "output.dir=runs/whole"})).code, 0);
  expect_same_end(place / "runs/base", place / "runs/whole", "checkpoint-" + std::to_string(end));
}

TEST(Resume, OfACompleteRunDoesNothing) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  const std::string metrics = slurp(place / "runs/base/metrics.jsonl");
  const Outcome outcome = place.run({"base.yaml", "--resume"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("runs/base is complete: step 12 of 12; nothing to resume\n"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(slurp(place / "runs/base/metrics.jsonl"), metrics);
}

TEST(Resume, PassesOverACheckpointThatIsDamaged) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "output.dir=runs/whole"}).code, 0);
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  const fs::path model = place / "runs/base/checkpoint-12/model.safetensors";
  fs::resize_file(model, fs::file_size(model) - 1);
  const Outcome outcome = place.run({"base.yaml", "--resume"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("passed over a damaged checkpoint, runs/base/checkpoint-12: "),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("continuing from runs/base/checkpoint-10\n"), std::string::npos) << outcome.out;
  expect_same_end(place / "runs/base", place / "runs/whole");
}

TEST(Resume, TwoRunsInOneFolderAtOnceAreRefused) {
  const Workplace place;
  Process first(place.path(), {"base.yaml", kForever, kConstant});
  ASSERT_TRUE(first.wait_for("step 1/"));
  const Outcome second = place.run({"base.yaml"});
  first.send(SIGINT);
  EXPECT_EQ(second.code, 2);
  EXPECT_EQ(second.err,
            "hydrac: error: another process is training in runs/base; wait for it to end, or set output.dir "
            "to another "
            "folder\n");
  EXPECT_EQ(first.finish().code, 4);
}

}  // namespace
}  // namespace hydrac::e2e
