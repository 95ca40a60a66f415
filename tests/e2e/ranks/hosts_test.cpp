// Ranks of two hosts train as those of one: two groups of processes with loopback addresses of their own.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/cli.h"
#include "tests/unit/support/reserved_port.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

const Words kFourRanks = {"base.yaml", "train.lr_scheduler.name=constant",
                          "train.gradient_accumulation_steps=1", "parallel.data=4",
                          "train.max_grad_norm=0.1"};
constexpr int kRanks = 4, kRanksOfHost = 2;

// As torchrun sets them.
std::map<std::string, std::string> variables_of(int rank, int port) {
  const int host = rank / kRanksOfHost;
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(kRanks)},
          {"LOCAL_RANK", std::to_string(rank % kRanksOfHost)},
          {"LOCAL_WORLD_SIZE", std::to_string(kRanksOfHost)},
          {"GROUP_RANK", std::to_string(host)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"HYDRAC_ADDRESS", fmt::format("127.0.0.{}", host + 1)},
          {"NCCL_SOCKET_IFNAME", fmt::format("eth{}", host)}};
}

// The ranks of two hosts; `second`: the folder of the second one.
std::vector<std::unique_ptr<Process>> start_hosts(const fs::path& first, const fs::path& second,
                                                  const Words& words) {
  const int port = test::reserve_port();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.push_back(
        std::make_unique<Process>(rank < kRanksOfHost ? first : second, words, variables_of(rank, port)));
  return ranks;
}

// Rank 0's.
Outcome run_on_hosts(const Workplace& place, const Words& words) {
  const auto ranks = start_hosts(place.path(), place.path(), words);
  const Outcome outcome = ranks[0]->finish();
  for (int rank = 1; rank < kRanks; ++rank) {
    const Outcome other = ranks[static_cast<size_t>(rank)]->finish();
    EXPECT_EQ(other.code, outcome.code) << other.err;
  }
  return outcome;
}

void expect_same_checkpoint(const Workplace& place, const std::string& a, const std::string& b) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"})
    EXPECT_TRUE(slurp(place / a / name) == slurp(place / b / name)) << name << " of " << a << " differs";
}

class Hosts : public testing::TestWithParam<int> {};

// Also where ranks of one host and of two take turns.
TEST_P(Hosts, TrainAsOne) {
  const Workplace place;
  const auto words = [&](const std::string& run, int steps, const Words& more = {}) {
    return with(with(kFourRanks, {fmt::format("parallel.zero={}", GetParam()), "output.dir=runs/" + run,
                                  fmt::format("train.max_steps={}", steps)}),
                more);
  };
  const Outcome one = place.run(words("one", 6));
  ASSERT_EQ(one.code, 0) << one.err;
  const Outcome two = run_on_hosts(place, words("two", 4));
  ASSERT_EQ(two.code, 0) << two.err;
  const Outcome resumed = run_on_hosts(place, words("two", 6, {"--resume", "--exact"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_same_checkpoint(place, "runs/two/checkpoint-4", "runs/one/checkpoint-4");
  expect_same_checkpoint(place, "runs/two/checkpoint-6", "runs/one/checkpoint-6");
  EXPECT_NE(two.out.find(" (127.0.0.1): ranks 0, 1; "), std::string::npos) << two.out;
  EXPECT_NE(two.out.find(" cores, NCCL_SOCKET_IFNAME=eth0\n"), std::string::npos) << two.out;
  EXPECT_NE(two.out.find(" (127.0.0.2): ranks 2, 3; "), std::string::npos) << two.out;
  EXPECT_NE(two.out.find(" cores, NCCL_SOCKET_IFNAME=eth1\n"), std::string::npos) << two.out;
  EXPECT_TRUE(slurp(place / "runs/two/rank-3.log").starts_with("rank 3 of 4, process "));
}

INSTANTIATE_TEST_SUITE_P(Levels, Hosts, testing::Values(0, 1, 2, 3));

TEST(SeveralHosts, EndWithARankThatIsKilled) {
  const Workplace place;
  for (const int killed : {1, 3}) {
    const auto ranks = start_hosts(place.path(), place.path(),
                                   with(kFourRanks, {"train.max_steps=100000000", "train.eval_steps=0"}));
    ASSERT_TRUE(ranks[0]->wait_for("step 20/"));
    ranks[static_cast<size_t>(killed)]->send(SIGKILL);
    for (const int rank : {0, 2}) EXPECT_EQ(ranks[static_cast<size_t>(rank)]->finish().code, 3);
    const std::string log = slurp(place / "runs/base/rank-2.log");
    const std::string who = fmt::format("rank {} on host ", killed);
    EXPECT_NE(log.find(who), std::string::npos) << log;
    EXPECT_NE(log.find(fmt::format("(127.0.0.{}) (process {}) ended without a word",
                                   killed / kRanksOfHost + 1, ranks[static_cast<size_t>(killed)]->id())),
              std::string::npos)
        << log;
  }
}

// The checkpoint is on the first host alone.
TEST(SeveralHosts, MustSeeTheSameCheckpoint) {
  const Workplace first, second;
  const Words words = with(kFourRanks, {"train.max_steps=4"});
  ASSERT_EQ(run_on_hosts(first, words).code, 0);
  const auto ranks =
      start_hosts(first.path(), second.path(), with(kFourRanks, {"train.max_steps=6", "--resume"}));
  const Outcome outcome = ranks[0]->finish();
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("(127.0.0.2) has no runs/base/checkpoint-4, from which rank 0 on host "),
            std::string::npos)
      << outcome.err;
}

// Its ranks find that, and the others wait for them.
TEST(SeveralHosts, OfWhichOneHasNoDataRefuseItTogether) {
  const Workplace first, second;
  fs::remove(second / "corpus.txt");
  const auto ranks = start_hosts(first.path(), second.path(), with(kFourRanks, {"train.max_steps=4"}));
  for (int rank = 0; rank < kRanks; ++rank) {
    const Outcome outcome = ranks[static_cast<size_t>(rank)]->finish();
    EXPECT_EQ(outcome.code, 2) << rank << ": " << outcome.err;
    const char* const said = rank < kRanksOfHost ? "): its spec or its data cannot be used\n" : "corpus.txt";
    EXPECT_NE(outcome.err.find(said), std::string::npos) << rank << ": " << outcome.err;
    const bool names_host = outcome.err.find("(127.0.0.2) (process ") != std::string::npos;
    EXPECT_EQ(names_host, rank < kRanksOfHost) << rank << ": " << outcome.err;
  }
  EXPECT_FALSE(fs::exists(first / "runs"));
}

TEST(SeveralHosts, ThatDisagreeAreNamed) {
  const Workplace place;
  const int port = test::reserve_port();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.push_back(std::make_unique<Process>(place.path(),
                                              with(kFourRanks, {rank == 3 ? "train.seed=7" : "train.seed=8"}),
                                              variables_of(rank, port)));
  const Outcome outcome = ranks[0]->finish();
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("(127.0.0.2) has train.seed = 7, where rank 0 on host "), std::string::npos)
      << outcome.err;
}

TEST(SeveralHosts, KeepRanksThatShareLayersTogether) {
  const Workplace place;
  const Outcome outcome =
      run_on_hosts(place, {"base.yaml", "train.gradient_accumulation_steps=1", "parallel.tensor=4",
                           "model.num_attention_heads=4", "model.num_key_value_heads=4"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(
      outcome.err.find("4 ranks share layers (parallel.tensor), and must be on one host: rank 0 on host "),
      std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace hydrac::e2e
