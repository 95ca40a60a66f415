// train.cpu_affinity: the cores that a run, its threads, its ranks and an emitted program are on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// "Cpus_allowed_list" of every thread of the process, as Linux writes it: "0-3,8".
std::set<std::string> cores_of(pid_t process) {
  std::set<std::string> all;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/task", process))) {
    std::istringstream status(slurp(entry.path() / "status"));
    const std::string name = "Cpus_allowed_list:\t";
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(name)) all.insert(line.substr(name.size()));
  }
  return all;
}

const Words kUntilStopped = {"train.max_steps=100000000", "train.eval_steps=0",
                             "train.lr_scheduler.name=constant", "optimizations.threads=0"};

TEST(Affinity, IsThatOfEveryThreadOfARun) {
  const Workplace place;
  const std::string core = std::to_string(own_cores().back());
  Process run(place.path(), with(with({"base.yaml"}, kUntilStopped), {"train.cpu_affinity=" + core}));
  ASSERT_TRUE(run.wait_for("step 10/"));
  EXPECT_EQ(cores_of(run.id()), std::set<std::string>{core});
  run.send(SIGINT);
  const Outcome outcome = run.finish();
  EXPECT_EQ(outcome.code, 4) << outcome.err;
}

TEST(Affinity, IsSplitByRanks) {
  const std::vector<int> cores = own_cores();
  if (cores.size() < 2) GTEST_SKIP() << "one core";
  const Workplace place;
  Process run(place.path(), with(with({"base.yaml"}, kUntilStopped),
                                 {"parallel.data=2", "train.gradient_accumulation_steps=1",
                                  fmt::format("train.cpu_affinity=[{}, {}]", cores[1], cores[0])}));
  ASSERT_TRUE(run.wait_for("step 10/"));
  std::smatch rank_1;
  const std::string log = slurp(place / "runs/base/rank-1.log");
  ASSERT_TRUE(std::regex_search(log, rank_1, std::regex("process ([0-9]+)"))) << log;
  EXPECT_EQ(cores_of(run.id()), std::set<std::string>{std::to_string(cores[1])});
  EXPECT_EQ(cores_of(std::stoi(rank_1[1])), std::set<std::string>{std::to_string(cores[0])});
  run.send(SIGINT);
  EXPECT_EQ(run.finish().code, 4);
}

TEST(Affinity, OfCoresThatAreNotThereIsRefused) {
  const Workplace place;
  std::string spec = base_spec();
  spec.replace(spec.find("train:\n"), 7, "train:\n  cpu_affinity: [0, 1023]\n");
  test::spill(place / "many.yaml", spec);
  for (const char* verb : {"", "check", "bench", "tune"}) {
    const Outcome outcome = place.run(*verb ? Words{verb, "many.yaml"} : Words{"many.yaml"});
    EXPECT_EQ(outcome.code, 2) << verb;
    EXPECT_NE(outcome.err.find("error: this machine has no core 1023: its cores are 0 to "),
              std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("    cpu_affinity: [0, 1023]\n                  ^\n"), std::string::npos)
        << outcome.err;
  }
  EXPECT_FALSE(fs::exists(place / "runs"));
}

// For a machine with more cores than this one.
TEST(Affinity, IsWrittenIntoAnEmittedProgram) {
  const Workplace place;
  const Words cores = {"train.cpu_affinity=[0-2, 8]", "optimizations.threads=0"};
  ASSERT_EQ(place.run(with({"emit", "base.yaml", "-o", "program", "-q"}, cores)).code, 0);
  EXPECT_NE(slurp(place / "program/settings.cpp").find("settings.cores = {0, 1, 2, 8};\n"),
            std::string::npos);
  EXPECT_NE(slurp(place / "program/dims.h").find("kThreads = 4;"), std::string::npos)
      << slurp(place / "program/dims.h");
  EXPECT_EQ(place.run(with({"diff", "base.yaml", "program"}, cores)).code, 0);
}

// What is sampled elsewhere does not need the cores of the machine that trained.
TEST(Affinity, IsOfTrainingAlone) {
  const Workplace place;
  const std::string core = std::to_string(own_cores().front());
  ASSERT_EQ(place.run({"base.yaml", "train.cpu_affinity=" + core}).code, 0);
  const std::string spec = slurp(place / "runs/base/spec.yaml");
  const std::string written = fmt::format("cpu_affinity: [{}]", core);
  ASSERT_NE(spec.find(written), std::string::npos) << spec;
  test::spill(place / "runs/base/spec.yaml",
              std::regex_replace(spec, std::regex(R"(cpu_affinity: \[\d+\])"), "cpu_affinity: [1000-1023]"));
  const Outcome sampled = place.run({"sample", "runs/base", "--max-new-tokens", "4"});
  EXPECT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_EQ(place.run({"base.yaml", "--resume", "train.max_steps=14"}).code, 0) << "it decides no result";
}

}  // namespace
}  // namespace hydrac::e2e
