// What tests/run-tests counts, prints and returns, for programs with every kind of trouble.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "tests/unit/support/command.h"
#include "tests/unit/support/source_dir.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::test {
namespace {

namespace fs = std::filesystem;

struct Outcome : CommandOutcome {
  std::string last_line;
};

// A build folder in which `programs` are registered; each is the sample, under the name that says how it
// behaves.
class RunTests : public testing::Test {
 protected:
  void build(const std::vector<std::string>& programs) {
    std::string registered;
    fs::create_directory(build_ / "tests");
    for (const std::string& name : programs) {
      registered += "add_test(" + name + " \"" + name + "\")\n";
      if (name != "missing") fs::create_symlink(RUN_TESTS_SAMPLE, build_ / ("tests/" + name));
    }
    spill(build_ / "CTestTestfile.cmake", registered);
  }

  Outcome run(const std::string& options = "", const std::string& filter = "") {
    const std::string command = hydrac::test::source_dir() + "/tests/run-tests " + options + " " +
                                build_.path().string() + (filter.empty() ? "" : " '" + filter + "'") +
                                " 2>&1";
    Outcome outcome;
    static_cast<CommandOutcome&>(outcome) = run_command(command);
    const size_t end = outcome.output.find_last_not_of('\n');
    const size_t begin = outcome.output.rfind('\n', end);
    outcome.last_line = outcome.output.substr(begin + 1, end - begin);
    return outcome;
  }

  static bool says(const Outcome& outcome, const std::string& text) {
    return outcome.output.find(text) != std::string::npos;
  }

 private:
  TempDir build_;
};

TEST_F(RunTests, AddsUpWhatPassed) {
  build({"first", "second"});
  const Outcome outcome = run();
  EXPECT_EQ(outcome.last_line, "4 passed, 0 failed") << outcome.output;
  EXPECT_EQ(outcome.code, 0);
}

TEST_F(RunTests, PrintsAFailureWithItsOutputAndOnlyThat) {
  build({"first", "fails"});
  const Outcome outcome = run();
  EXPECT_EQ(outcome.last_line, "4 passed, 1 failed") << outcome.output;
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(says(outcome, "6 * 9\n")) << outcome.output;
  EXPECT_FALSE(says(outcome, "no newline at the end")) << outcome.output;
}

TEST_F(RunTests, PrintsWhyATestWasSkipped) {
  build({"skips"});
  const Outcome outcome = run();
  EXPECT_EQ(outcome.last_line, "2 passed, 0 failed, 1 skipped") << outcome.output;
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(says(outcome, "  Sample.Skips: there is no moon tonight\n")) << outcome.output;
}

TEST_F(RunTests, CountsWhatTheCallerSkipped) {
  build({"first"});
  const Outcome outcome = run("--skipped 'the oracle: no LibTorch'");
  EXPECT_EQ(outcome.last_line, "2 passed, 0 failed, 1 skipped") << outcome.output;
  EXPECT_TRUE(says(outcome, "  the oracle: no LibTorch\n")) << outcome.output;
}

TEST_F(RunTests, RunsTheTestsBehindACrash) {
  build({"crashes", "second"});
  const Outcome outcome = run();
  EXPECT_EQ(outcome.last_line, "5 passed, 1 failed") << outcome.output;
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(says(outcome, "DIED with exit code 134")) << outcome.output;
  EXPECT_TRUE(says(outcome, "[ RUN      ] Sample.Crashes")) << outcome.output;
  EXPECT_FALSE(says(outcome, "[ RUN      ] Sample.IsBehindIt")) << outcome.output;
}

TEST_F(RunTests, GivesUpAProgramThatCrashesAgainAndAgain) {
  build({"crashes_always"});
  const Outcome outcome = run();
  EXPECT_EQ(outcome.last_line, "2 passed, 8 failed") << outcome.output;
  EXPECT_TRUE(says(outcome, "; 3 tests were not run after 5 deaths")) << outcome.output;
}

TEST_F(RunTests, StopsAProgramThatHangs) {
  build({"hangs"});
  const Outcome outcome = run("--timeout 5");  // within which a busy machine gets to the one that hangs
  EXPECT_EQ(outcome.last_line, "3 passed, 1 failed") << outcome.output;
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(says(outcome, "HUNG: it printed nothing for 5 s")) << outcome.output;
}

TEST_F(RunTests, EndsWhatACrashLeavesBehind) {
  build({"leaves_a_child"});
  const TempDir folder;
  const fs::path file = folder / "child";
  ::setenv("RUN_TESTS_CHILD", file.c_str(), 1);
  const Outcome outcome = run();
  ::unsetenv("RUN_TESTS_CHILD");
  EXPECT_EQ(outcome.last_line, "2 passed, 1 failed") << outcome.output;
  const fs::path program = "/proc/" + slurp(file) + "/exe";
  const auto runs = [&] {
    std::error_code ended;
    return !fs::read_symlink(program, ended).empty();
  };
  for (int i = 0; i < 2400 && runs(); ++i) ::usleep(50'000);
  EXPECT_FALSE(runs());
}

TEST_F(RunTests, CountsAProgramWhoseRunnerWasKilled) {
  build({"first", "second", "kills_its_runner"});
  for (const char* jobs : {"--jobs 1", "--jobs 3"}) {
    const Outcome outcome = run(jobs);
    EXPECT_EQ(outcome.last_line, "4 passed, 1 failed") << outcome.output;
    EXPECT_TRUE(says(outcome, "kills_its_runner: no counts: it was killed\n")) << outcome.output;
  }
}

TEST_F(RunTests, FailsForAProgramThatLeavesBadly) {
  build({"leaves_badly"});
  const Outcome outcome = run();
  EXPECT_EQ(outcome.last_line, "1 passed, 1 failed") << outcome.output;
  EXPECT_TRUE(says(outcome, "DIED with exit code 7")) << outcome.output;
}

TEST_F(RunTests, FailsForAProgramThatWasNotBuiltOrHasNoTests) {
  build({"missing", "empty", "first"});
  const Outcome outcome = run();
  EXPECT_EQ(outcome.last_line, "2 passed, 2 failed") << outcome.output;
  EXPECT_EQ(outcome.code, 1);
}

TEST_F(RunTests, FailsWhenNothingRan) {
  build({});
  const Outcome outcome = run();
  EXPECT_EQ(outcome.last_line, "0 passed, 1 failed") << outcome.output;
  EXPECT_EQ(outcome.code, 1);
}

TEST_F(RunTests, RunsWhatAFilterNames) {
  build({"first", "fails"});
  EXPECT_EQ(run("", "first").last_line, "2 passed, 0 failed");
  EXPECT_EQ(run("", "AlsoPas").last_line, "2 passed, 0 failed");
  EXPECT_EQ(run("", "Sample.*Passes:-Sample.A*").last_line, "2 passed, 0 failed");
  const Outcome nothing = run("", "NoSuchTest");
  EXPECT_EQ(nothing.last_line, "0 passed, 1 failed");
  EXPECT_TRUE(says(nothing, "nothing matches \"NoSuchTest\"")) << nothing.output;
}

TEST_F(RunTests, RefusesUnknownOptions) {
  build({"first"});
  EXPECT_EQ(run("--fast yes").code, 2);
}

}  // namespace
}  // namespace hydrac::test
