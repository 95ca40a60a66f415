// Completion as shells do it: hydrac's own answers, and bash with the script that hydrac prints.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/e2e/cli.h"
#include "tests/unit/support/command.h"

namespace hydrac::e2e {
namespace {

std::string completed(const Workplace& place, const std::string& word, const Words& before) {
  return place.run(with({"completion", "words", "--word", word, "--"}, before)).out;
}

TEST(Completion, KnowsVerbsOptionsKeysAndValues) {
  const Workplace place;
  EXPECT_EQ(completed(place, "ex", {}), "explain\nexport\n");
  EXPECT_EQ(completed(place, "d", {}), "data\ndiff\ndocs\n");
  EXPECT_EQ(completed(place, "mem", {"docs"}), "memory\n");
  EXPECT_EQ(completed(place, "", {"data"}), "prepare\nshow\n");
  EXPECT_EQ(completed(place, "--v", {"check"}), "--verbose\n");
  EXPECT_EQ(completed(place, "--vo", {"data", "prepare"}), "--vocab-size\n");
  EXPECT_EQ(completed(place, "--res", {"base.yaml"}), "--resume\n") << "a spec runs";
  EXPECT_EQ(completed(place, "model.num_h", {"check", "base.yaml"}), "model.num_hidden_layers=\n");
  EXPECT_EQ(completed(place, "model.norm=", {"check", "base.yaml"}),
            "model.norm=layernorm\nmodel.norm=rmsnorm\n");
  EXPECT_EQ(completed(place, "train.max_steps=", {"base.yaml"}), "") << "a number";
  EXPECT_EQ(completed(place, "no.such_key=", {"base.yaml"}), "");
  EXPECT_EQ(completed(place, "model.", {"export", "runs/base"}), "") << "export takes no keys";
}

TEST(Completion, RefusesOtherShells) {
  const Workplace place;
  const Outcome outcome = place.run({"completion", "tcsh"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "hydrac: error: completion takes a shell: bash, zsh or fish\n");
}

// Sets what bash sets when Tab is pressed at the end of `line`, of which `words` are readline's.
std::string bash_completes(const Workplace& place, const std::string& line, const std::string& words) {
  const std::string program =
      std::getenv("HYDRAC_PROGRAM") ? std::getenv("HYDRAC_PROGRAM") : HYDRAC_BUILT_PROGRAM;
  const auto [code, said] = test::run_command(
      "cd '" + place.path().string() + "' && bash -c 'hydrac() { " + program +
      " \"$@\"; }; compopt() { printf nospace:; }\n" + "eval \"$(hydrac completion bash)\"; COMP_LINE=\"" +
      line + "\" COMP_POINT=" + std::to_string(line.size()) + "\nCOMP_WORDS=(" + words +
      ") COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _hydrac; echo \"${COMPREPLY[*]}\"' 2>&1");
  EXPECT_EQ(code, 0) << said;
  return said;
}

TEST(Completion, WorksInBash) {
  if (std::system("command -v bash >/dev/null") != 0) GTEST_SKIP() << "bash is not installed";
  const Workplace place;
  EXPECT_EQ(bash_completes(place, "hydrac sch", "hydrac sch"), "schema\n");
  EXPECT_EQ(bash_completes(place, "hydrac check bas", "hydrac check bas"), "base.yaml\n") << "a file";
  EXPECT_EQ(bash_completes(place, "hydrac base.yaml model.num_h", "hydrac base.yaml model.num_h"),
            "nospace:model.num_hidden_layers=\n");
  EXPECT_EQ(bash_completes(place, "hydrac base.yaml model.norm=l", "hydrac base.yaml model.norm = l"),
            "layernorm\n");
}

}  // namespace
}  // namespace hydrac::e2e
