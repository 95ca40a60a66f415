// Programs that say what replies are worth, good and bad ones.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "runtime/log/signal.h"
#include "runtime/train/generation/reward_command.h"
#include "runtime/train/generation/sampled_replies.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

const std::vector<PromptReplies> kPrompts = {{"one \"quoted\"", {"a", "bb\n"}}, {"two", {"", "\xff"}}};

RewardCommand shell(const std::string& script, double timeout = 300) {
  return {{"sh", "-c", script}, timeout};
}

std::vector<double> rewards_of_two(const RewardCommand& command) {
  return rewards_of(command, json_lines(kPrompts), 4);
}

std::string problem_of(const RewardCommand& command) {
  try {
    rewards_of_two(command);
  } catch (const RewardError& error) {
    return error.what();
  }
  return "";
}

void expect_problem(const RewardCommand& command, const std::string& what) {
  EXPECT_NE(problem_of(command).find(what), std::string::npos) << problem_of(command);
}

TEST(RewardCommand, ReadsPromptsAndRepliesAsJsonLines) {
  const test::TempDir folder;
  const std::string copy = (folder / "in.jsonl").string();
  EXPECT_EQ(rewards_of_two(shell("cat > '" + copy + "'; printf '1\\n-2.5\\n 3e-1 \\n0\\n'")),
            (std::vector<double>{1, -2.5, 0.3, 0}));
  std::ifstream file(copy);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text,
            "{\"prompt\":\"one \\\"quoted\\\"\",\"replies\":[\"a\",\"bb\\n\"]}\n"
            "{\"prompt\":\"two\",\"replies\":[\"\",\"\xef\xbf\xbd\"]}\n");
}

TEST(RewardCommand, NeedNotReadItsInputNorEndItsLastLine) {
  ignore_write_signals();
  const std::vector<PromptReplies> large = {{std::string(1 << 20, 'x'), {"a", "b"}}};
  EXPECT_EQ(rewards_of(shell("exec <&-; printf '1\\n2'"), json_lines(large), 2), (std::vector<double>{1, 2}));
}

TEST(RewardCommand, ThatFailsIsAnErrorThatSaysHow) {
  expect_problem({{"/nowhere/reward", "x"}, 5},
                 "objective.reward.command, /nowhere/reward x, cannot be started: No such file or directory");
  expect_problem(shell("exit 3"), "ended with exit code 3");
  expect_problem(shell("seq 4; exit 1"), "ended with exit code 1");
  expect_problem(shell("kill -9 $$"), "was killed by signal 9 (Killed)");
}

TEST(RewardCommand, ThatHangsIsKilledWithWhatItStarted) {
  expect_problem(shell("sleep 600", 0.2), "has not ended after 0.2 s (objective.reward.timeout)");
  expect_problem(shell("sleep 600 & sleep 600", 0.2), "has not ended after 0.2 s");
  expect_problem(shell("seq 4; exec >&-; sleep 600", 0.2), "has not ended after 0.2 s");
}

TEST(RewardCommand, ThatPrintsNonsenseIsAnError) {
  expect_problem(shell("seq 3"), "printed 3 numbers for 4 replies");
  expect_problem(shell("seq 5"), "printed 5 numbers for 4 replies");
  expect_problem(shell("echo 1; echo good"), "printed \"good\" as line 2, which is no finite number");
  expect_problem(shell("echo nan"), "printed \"nan\" as line 1, which is no finite number");
  expect_problem(shell("echo -1.7e308"), "printed \"-1.7e308\" as line 1, and a reward is 3.4e38 at most");
  expect_problem(shell("echo 1,5"), "printed \"1,5\" as line 1");
  expect_problem(shell("echo"), "printed \"\" as line 1");
  expect_problem(shell("yes 1"), "prints without end");
}

TEST(Standardized, IsTheDistanceFromTheMeanInDeviations) {
  const std::vector<double> rewards = {1, 2, 3}, equal = {5, 5};
  const std::vector<double> found = standardized(rewards);
  EXPECT_NEAR(found[0], -std::sqrt(1.5), 1e-3);
  EXPECT_NEAR(found[1], 0, 1e-12);
  EXPECT_NEAR(found[2], std::sqrt(1.5), 1e-3);
  EXPECT_EQ(standardized(equal), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace hydrac::runtime
