// main() of an emitted program: what its options change, what it prints, how it ends.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "runtime/app/exit_code.h"
#include "runtime/app/train_main.h"
#include "runtime/data/token_shard.h"
#include "runtime/error.h"
#include "runtime/train/run/run_checkpoint.h"
#include "tests/package/tiny_program.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

namespace fs = std::filesystem;
using test::slurp;
using test::TempDir;
using test::TinyProgram;

struct Outcome {
  int code;
  std::string out, err;
};

class TrainMain : public testing::Test {
 protected:
  TrainMain() { write_shard("tokens.bin", 7); }

  void write_shard(const std::string& name, int kinds) {
    std::string tokens;
    for (int i = 0; i < 400; ++i) tokens += {static_cast<char>('a' + i * i % kinds), '\0'};
    write_token_shard(folder_ / name, tokens, 2, 0, 0);
  }

  TrainSettings settings() const {
    TrainSettings settings;
    settings.name = "tiny";
    settings.train.run_dir = folder_ / "run";
    settings.train.max_steps = 4;
    settings.train.identity = {{"data.path", "[\"tokens.bin\"]"}, {"train.seed", "7"}};
    settings.train.sample.max_new_tokens = 3;
    settings.data.path = {(folder_ / "tokens.bin").string()};
    settings.data.tokenizer = "byte";
    settings.data.sizes.vocab_size = test::kV;
    settings.data.batch_size = test::kB;
    settings.data.sequence_len = test::kT;
    return settings;
  }

  Outcome run(std::vector<const char*> words) { return run(settings(), std::move(words)); }
  Outcome run(const TrainSettings& settings, std::vector<const char*> words) {
    words.insert(words.begin(), "build/train");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = train_main(static_cast<int>(words.size()), words.data(), settings, open_shards,
                                [&](const RecordedChoices&) -> std::unique_ptr<LaidOutProgram> {
                                  ++made_;
                                  return std::make_unique<TinyProgram>();
                                });
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
  }

  TempDir folder_;
  int made_ = 0;
};

TEST_F(TrainMain, TrainsAndSaysWhatItDoes) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(
      outcome.out.starts_with("tiny: 256 parameters, 3.20 KiB of tensor memory, by hand\n"
                              "49 sequences of 8 an epoch\n"))
      << outcome.out;
  const fs::path checkpoint = folder_ / "run/checkpoint-4";
  EXPECT_EQ(slurp(checkpoint / "tokenizer.json"), make_byte_tokenizer()->to_json());
  EXPECT_NE(slurp(folder_ / "run/metrics.jsonl").find("\"step\":4"), std::string::npos);
}

TEST_F(TrainMain, AFolderOfAnEncoderIsForProgramsThatHaveOne) {
  const Outcome outcome = run({"--embed", "bert"});
  EXPECT_EQ(outcome.code, kExitBadInput);
  EXPECT_NE(outcome.err.find("--embed is for an encoder as objective.embed, and this program has none"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(made_, 0);
}

TEST_F(TrainMain, AResumedRunIsTheWholeOne) {
  ASSERT_EQ(run({"--quiet", "--output", (folder_ / "whole").c_str()}).code, 0);
  const std::string parts = folder_ / "parts";
  ASSERT_EQ(run({"--quiet", "--steps=2", "--output", parts.c_str()}).code, 0);
  const Outcome rest = run({"--quiet", "--resume", "--output", parts.c_str()});
  EXPECT_EQ(rest.code, 0);
  EXPECT_EQ(rest.out + rest.err, "");
  EXPECT_EQ(slurp(folder_ / "parts/checkpoint-4/model.safetensors"),
            slurp(folder_ / "whole/checkpoint-4/model.safetensors"));
}

TEST_F(TrainMain, ResumeAutoBeginsAndContinues) {
  ASSERT_EQ(run({"--quiet", "--steps=2", "--resume=auto"}).code, 0);
  const Outcome rest = run({"--resume", "auto"});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find("continuing from " + (folder_ / "run/checkpoint-2").string()), std::string::npos)
      << rest.out;
}

// The signal comes after the first record, so that the handlers are there; without it the run would go on for
// hours.
TEST_F(TrainMain, AStoppedRunIsSavedAndEndsWith4) {
  std::thread stopper([&] {
    std::error_code ignored;
    while (fs::file_size(folder_ / "run/metrics.jsonl", ignored) == 0 || ignored)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::kill(::getpid(), SIGTERM);
  });
  const Outcome outcome = run({"--steps", "1000000000"});
  stopper.join();
  EXPECT_EQ(outcome.code, kExitStopped);
  EXPECT_NE(outcome.out.find("\nsaved "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" of 1000000000; --resume continues it\n"), std::string::npos) << outcome.out;
}

TEST_F(TrainMain, OtherDataIsAnotherRun) {
  write_shard("other.bin", 5);
  ASSERT_EQ(run({"-q", "--steps", "2"}).code, 0);
  const std::string other = folder_ / "other.bin";
  const Outcome outcome = run({"--quiet", "--resume", "--data", other.c_str(), "--data", other.c_str()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("data.path"), std::string::npos) << outcome.err;
  EXPECT_EQ(made_, 1);  // refused before anything is made
}

TEST_F(TrainMain, TextNeedsAProgramThatReadsIt) {
  const std::string text = folder_ / "text.txt";
  test::spill(text, "words");
  const Outcome outcome = run({"--data", text.c_str()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "train: error: " + text +
                             ": this program reads token shards (*.bin) only; to tokenize text, build it "
                             "with runtime/text\n");
}

TEST_F(TrainMain, HelpListsItsOptions) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(
      outcome.out,
      "usage: train [options]\n\n"
      "trains tiny into " +
          (folder_ / "run").generic_string() +
          "\n\noptions\n"
          "  --data PATH        train on these files, a path or pattern; once for each\n"
          "  --val-data PATH    validate on these files; once for each\n"
          "  --tokenizer FILE   the tokenizer.json of the data\n"
          "  --embed DIR        the folder of the encoder that embeds replies\n"
          "  --reward WORD      what says how much replies are worth: a program, then its arguments; once "
          "for "
          "each word\n"
          "  --steps N          end after N steps; the learning rate's schedule stays that of the spec\n"
          "  --output DIR       the run's folder\n"
          "  --resume [auto]    continue the run in its folder from its newest checkpoint; auto: begin where "
          "there is "
          "none\n"
          "  --exact            refuse to resume where results would differ in their last bits\n"
          "  --quiet,-q         print nothing but errors\n"
          "  --check-kernels    wait for every kernel and name the first that fails or writes NaN or "
          "infinity; "
          "slow\n"
          "  --no-graph         put calls on the GPU's queue one by one, for debuggers and profilers; the "
          "same "
          "results\n"
          "  --profile N        let a profiler that waits for it (nsys profile -c cudaProfilerApi) record "
          "steps 11 to "
          "10 + N\n"
          "  --help             print this\n\n"
          "Exit codes: 0 fine, 2 bad input, 3 the run failed, 4 stopped by a signal\n"
          "before the end: saved, continue with --resume; 130 stopped at once by a second signal.\n");
  EXPECT_EQ(made_, 0);
}

TEST_F(TrainMain, WrongWordsAreBadInput) {
  const std::vector<std::pair<std::vector<const char*>, std::string>> cases = {
      {{"--stepz"}, "unknown option --stepz; --help lists them"},
      {{"--profile", "0"}, "--profile takes a whole number of at least 1, not \"0\""},
      {{"tokens.bin"}, "unknown option tokens.bin; --help lists them"},
      {{"--steps"}, "--steps needs a value: N"},
      {{"--steps", "0"}, "--steps takes a whole number of at least 1, not \"0\""},
      {{"--steps=1x"}, "--steps takes a whole number of at least 1, not \"1x\""},
      {{"--quiet=1"}, "--quiet takes no value"},
      {{"--resume=now"}, "--resume takes auto or nothing, not \"now\""},
      {{"--resume", "now"}, "unknown option now; --help lists them"},
  };
  for (const auto& [words, message] : cases) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "train: error: " + message + "\n");
  }
  EXPECT_EQ(made_, 0);
}

TEST_F(TrainMain, WhatRewardsRepliesIsForItsUserToSay) {
  EXPECT_EQ(
      run({"--reward", "reward.py"}).err,
      "train: error: --reward is for objective.name: grpo; nothing that this program samples is rewarded\n");
  TrainSettings rewarded = settings();
  rewarded.train.objective.reward.timeout_seconds = 60;
  EXPECT_EQ(
      run(rewarded, {}).err,
      "train: error: replies are rewarded (objective.name: grpo), and nothing says by what: give a program "
      "as --reward\n");
  EXPECT_EQ(made_, 0);
  const Outcome fine = run(rewarded, {"--reward", "python3", "--reward=reward.py", "--quiet"});
  EXPECT_EQ(fine.code, 0) << fine.err;
  EXPECT_NE(slurp(folder_ / "run/checkpoint-4/state.json")
                .find(R"(objective.reward.command = [\"python3\",\"reward.py\"])"),
            std::string::npos);
}

TEST_F(TrainMain, WhatIsOfAGpuIsRefusedElsewhere) {
  EXPECT_EQ(run({"--no-graph"}).err, "train: error: --no-graph: a program for the cpu has no CUDA graphs\n");
  const Outcome profile = run({"--profile=3"});
  EXPECT_EQ(profile.code, 2);
  EXPECT_EQ(profile.err.substr(0, 40), "train: error: --profile: a program for t");
}

TEST_F(TrainMain, AFailedRunIsTold) {
  testing::internal::CaptureStderr();
  const char* words[] = {"train", "--quiet"};
  const int code = train_main(
      2, words, settings(), open_shards,
      [](const RecordedChoices&) -> std::unique_ptr<LaidOutProgram> { throw RunError("no memory"); });
  EXPECT_EQ(code, 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "train: the run failed: no memory\n");
}

}  // namespace
}  // namespace hydrac::runtime
