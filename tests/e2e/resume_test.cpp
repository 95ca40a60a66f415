// A run that is stopped or killed and continued ends as one that never was: byte for byte.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <random>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

void expect_same_end(const fs::path& run, const fs::path& uninterrupted) {
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "state.json", "config.json", "manifest.json"}) {
    const fs::path file = fs::path("checkpoint-12") / name;
    EXPECT_TRUE(slurp(run / file) == slurp(uninterrupted / file)) << file << " differs";
  }
  EXPECT_EQ(without_timing(slurp(run / "metrics.jsonl")),
            without_timing(slurp(uninterrupted / "metrics.jsonl")));
}

TEST(Resume, AfterCtrlCTheRunEndsAsIfItHadNotBeenStopped) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "output.dir=runs/whole"}).code, 0);
  // A checkpoint only where it is stopped: what it saves on the way out is what is continued.
  const Words command = {"base.yaml", "train.save_steps=0"};
  Process process(place.path(), command);
  ASSERT_TRUE(process.wait_for("step 3/12"));
  process.send(SIGINT);
  const Outcome stopped = process.finish();
  ASSERT_EQ(stopped.code, 0) << stopped.err;
  const size_t at = stopped.out.find("stopped at step ");
  ASSERT_NE(at, std::string::npos) << "it had ended before the signal came:\n" << stopped.out;
  EXPECT_NE(stopped.out.find(" of 12; --resume continues it\n", at), std::string::npos) << stopped.out;
  const Outcome resumed = place.run({"base.yaml", "train.save_steps=0", "--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("continuing from runs/base/checkpoint-"), std::string::npos) << resumed.out;
  expect_same_end(place / "runs/base", place / "runs/whole");
}

// Killed right after some step or save, or some milliseconds later: in the middle of a step, of a write, of a
// start.
TEST(Resume, KilledAgainAndAgainTheRunEndsAsIfItHadNotBeen) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "output.dir=runs/whole"}).code, 0);
  std::mt19937 random(11);
  int killed = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    Words command = {"base.yaml", "train.save_steps=1"};
    if (fs::exists(place / "runs/base/metrics.jsonl")) command.push_back("--resume");
    Process process(place.path(), command);
    const bool after_a_save = attempt % 3 != 2;
    if (!process.wait_for(after_a_save ? "saved " : "step ")) break;  // nothing was left to do
    if (attempt % 2 == 1) ::usleep(random() % 4000);
    process.send(SIGKILL);
    const int code = process.finish().code;
    ASSERT_TRUE(code == 1000 + SIGKILL || code == 0) << code;
    killed += code != 0;
  }
  EXPECT_GE(killed, 2);
  const Outcome last = place.run({"base.yaml", "train.save_steps=1", "--resume"});
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same_end(place / "runs/base", place / "runs/whole");
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
  Process first(place.path(), {"base.yaml"});
  ASSERT_TRUE(first.wait_for("step 1/12"));
  first.send(SIGSTOP);
  const Outcome second = place.run({"base.yaml"});
  first.send(SIGCONT);
  EXPECT_EQ(second.code, 2);
  EXPECT_EQ(second.err,
            "hydrac: error: another process is training in runs/base; wait for it to end, or set output.dir "
            "to another "
            "folder\n");
  EXPECT_EQ(first.finish().code, 0);
}

}  // namespace
}  // namespace hydrac::e2e
