// Ranks as processes of this machine: what they exchange, and how all end when one does.
#include "runtime/parallel/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "runtime/error.h"
#include "runtime/log/signal.h"
#include "runtime/parallel/hosts.h"
#include "tests/unit/support/on_ranks.h"

namespace hydrac::runtime {
namespace {

using test::on_ranks;
using test::tell;

// Ranks that hear nothing of each other's end would wait for hours.
constexpr std::chrono::seconds kNotForEver(120);

TEST(Ranks, SumInTheOrderOfRanksToTheBit) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 700'001;  // several pieces, and no multiple of anything
  const auto value = [](int rank, size_t i) {
    return static_cast<float>(
        static_cast<double>((i * 2654435761u + static_cast<size_t>(rank) * 40503u) % 1000003) *
        (rank % 2 == 0 ? 1e-3 : -1e4));
  };
  const auto told = on_ranks(kRanks, [&](Ranks& ranks, int pipe) {
    std::vector<float> data(kCount);
    for (size_t i = 0; i < kCount; ++i) data[i] = value(ranks.rank(), i);
    ranks.all_reduce(data);
    ranks.all_reduce(std::span(data).first(0));
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
      float sum = 0;
      for (int rank = 0; rank < kRanks; ++rank) sum += value(rank, i);
      wrong += sum != data[i];
    }
    tell(pipe, std::to_string(wrong) + " wrong" + (ranks.seconds() > 0 ? "" : ", and no time"));
  });
  EXPECT_EQ(told, std::vector<std::string>(kRanks, "0 wrong"));
}

// Of a tensor of several pieces a part, whose size is no multiple of anything.
TEST(Ranks, GetTheirPartsOfSumsAndThePartsOfAll) {
  constexpr int kRanks = 3;
  constexpr size_t kPart = 300'001;
  const auto value = [](int rank, size_t i) {
    return static_cast<float>(static_cast<double>((i * 2654435761u + static_cast<size_t>(rank)) % 1000003) *
                              (rank % 2 == 0 ? 1e-3 : -1e4));
  };
  const auto told = on_ranks(kRanks, [&](Ranks& ranks, int pipe) {
    std::vector<float> data(kRanks * kPart), part(kPart), gathered(data.size());
    for (size_t i = 0; i < data.size(); ++i) data[i] = value(ranks.rank(), i);
    ranks.reduce_scatter(data, part);
    ranks.all_gather(part, gathered);
    ranks.all_reduce(data);
    const size_t first = static_cast<size_t>(ranks.rank()) * kPart;
    const bool own = std::equal(part.begin(), part.end(), data.begin() + static_cast<std::ptrdiff_t>(first));
    tell(pipe, std::string(own ? "own" : "not own") + (gathered == data ? ", all" : ", not all"));
  });
  EXPECT_EQ(told, std::vector<std::string>(kRanks, "own, all"));
}

// Of seven slots ranks 0 and 1 own three each and rank 2 one, of parts whose size is no multiple of anything.
TEST(Ranks, OwnWholeSlotsOfWhichAllHaveParts) {
  constexpr int kRanks = 3, kSlots = 7, kOwned = 3;
  constexpr size_t kPart = 100'003;
  const auto value = [](size_t slot, int rank, size_t i) {
    return static_cast<float>(1 + (slot * kRanks + static_cast<size_t>(rank)) * 1000 + i % 997);
  };
  const auto told = on_ranks(kRanks, [&](Ranks& ranks, int pipe) {
    std::vector<float> parts(kSlots * kPart), whole(kOwned * kRanks * kPart, -1), back(parts.size(), -1);
    for (size_t i = 0; i < parts.size(); ++i) parts[i] = value(i / kPart, ranks.rank(), i % kPart);
    ranks.to_owners(parts, whole, kSlots);
    size_t wrong = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      const size_t slot = static_cast<size_t>(ranks.rank()) * kOwned + i / kPart / kRanks;
      const float expected = slot < kSlots ? value(slot, static_cast<int>(i / kPart % kRanks), i % kPart) : 0;
      wrong += whole[i] != expected;
    }
    ranks.from_owners(whole, back, kSlots);
    tell(pipe, fmt::format("{} wrong, {}", wrong, back == parts ? "and back" : "not back"));
  });
  EXPECT_EQ(told, std::vector<std::string>(kRanks, "0 wrong, and back"));
}

// Ranks 0 to 2 share layers, and 3 to 5; 0 and 3 share micro-batches, and so on.
TEST(Ranks, GroupsExchangeAtTheSameTime) {
  constexpr size_t kCount = 300'003;
  const auto told = on_ranks(6, [&](Ranks& ranks, int pipe) {
    ranks.share_layers(3);
    const auto value = static_cast<float>(1 << ranks.rank());
    const std::vector<float> own(kCount, value);
    std::vector<float> layers(kCount), batches(kCount), gathered(3 * kCount), part(kCount / 3);
    ranks.all_reduce(own, layers, RankGroup::tensor);
    ranks.all_reduce(own, batches, RankGroup::data);
    ranks.all_gather(own, gathered, RankGroup::tensor);
    ranks.reduce_scatter(own, part, RankGroup::tensor);
    const auto all = [](const std::vector<float>& of, float value) {
      return static_cast<size_t>(std::ranges::count(of, value)) == of.size();
    };
    const int group = ranks.rank(RankGroup::data), place = ranks.rank(RankGroup::tensor);
    bool is_right = all(layers, static_cast<float>(7 << 3 * group)) &&
                    all(part, static_cast<float>(7 << 3 * group)) &&
                    all(batches, static_cast<float>(9 << place)) && all(own, value);
    for (size_t i = 0; i < gathered.size(); ++i)
      is_right &= gathered[i] == static_cast<float>(1 << (3 * group + static_cast<int>(i / kCount)));
    tell(pipe, fmt::format("{} of {}, {} of {}{}", group, ranks.size(RankGroup::data), place,
                           ranks.size(RankGroup::tensor), is_right ? "" : " wrong"));
  });
  EXPECT_EQ(told, (std::vector<std::string>{"0 of 2, 0 of 3", "0 of 2, 1 of 3", "0 of 2, 2 of 3",
                                            "1 of 2, 0 of 3", "1 of 2, 1 of 3", "1 of 2, 2 of 3"}));
}

TEST(Ranks, Rank0CollectsBytes) {
  constexpr size_t kBytes = (1 << 20) + 77;  // two pieces
  const auto told = on_ranks(3, [&](Ranks& ranks, int pipe) {
    const std::vector<std::byte> own(kBytes, std::byte(ranks.rank() + 1));
    std::vector<std::byte> all(3 * kBytes);
    ranks.collect(own, [&](int rank, size_t first, std::span<const std::byte> bytes) {
      std::ranges::copy(bytes, all.begin() + static_cast<std::ptrdiff_t>(rank * kBytes + first));
    });
    std::string text;
    for (const size_t at : {size_t{0}, kBytes - 1, kBytes, 2 * kBytes - 1, 2 * kBytes, 3 * kBytes - 1})
      text += std::to_string(static_cast<int>(all[at]));
    tell(pipe, text);
  });
  EXPECT_EQ(told, (std::vector<std::string>{"112233", "000000", "000000"}));
}

TEST(Ranks, ExchangeTextsAndFlags) {
  const auto told = on_ranks(3, [](Ranks& ranks, int pipe) {
    std::string text = ranks.share(ranks.leads() ? "from 0" : "not this");
    for (const std::string& one : ranks.gather(std::string(static_cast<size_t>(ranks.rank()), 'x')))
      text += "," + one;
    for (int i = 0; i < 5; ++i) text += ranks.any(ranks.rank() == 1 && i == 3) ? "1" : "0";
    tell(pipe, text);
  });
  EXPECT_EQ(told, std::vector<std::string>(3, "from 0,,x,xx00010"));
}

// Rank 0 says something while others still read the sum before it: as when a run saves behind its last sum.
TEST(Ranks, WhatRank0SharesLeavesSumsAsTheyAre) {
  const auto told = on_ranks(4, [](Ranks& ranks, int pipe) {
    const std::string text(ranks.leads() ? 100'000 : 0, 'x');
    int wrong = 0;
    for (int i = 0; i < 500; ++i) {
      std::vector<float> data(50'000, static_cast<float>(i));
      ranks.all_reduce(data);
      wrong += std::ranges::count(data, static_cast<float>(4 * i)) != std::ssize(data);
      wrong += ranks.share(text).size() != 100'000;
    }
    tell(pipe, std::to_string(wrong) + " wrong");
  });
  EXPECT_EQ(told, std::vector<std::string>(4, "0 wrong"));
}

// The others wait for it.
TEST(Ranks, ARankThatFailsTellsAllOthersWhy) {
  for (const int failing : {0, 1, 2}) {
    const auto told = on_ranks(3, [&](Ranks& ranks, int) {
      if (ranks.rank() == failing) throw RunError("out of luck");
      ranks.any(false);
    });
    for (const int rank : {0, 1, 2}) {
      const std::string start = rank == failing ? "! out" : fmt::format("! rank {}", failing);
      EXPECT_TRUE(told[rank].starts_with(start)) << told[rank];
      EXPECT_TRUE(told[rank].ends_with("out of luck")) << told[rank];
    }
  }
}

TEST(Ranks, WhatOneFindsBadIsBadInputOnAll) {
  for (const int failing : {0, 1, 2}) {
    const auto told = on_ranks(3, [&](Ranks& ranks, int) {
      if (ranks.rank() == failing) throw InputError("no such file");
      ranks.any(false);
    });
    for (const int rank : {0, 1, 2}) {
      const std::string start = rank == failing ? "? no" : fmt::format("? rank {}", failing);
      EXPECT_TRUE(told[rank].starts_with(start)) << told[rank];
      EXPECT_TRUE(told[rank].ends_with("no such file")) << told[rank];
    }
  }
}

// The slow one still hears nothing of an end when it gets there.
TEST(Ranks, RefuseTogetherWhatAllHaveFound) {
  for (const int slow : {0, 2}) {
    const auto told = on_ranks(3, [&](Ranks& ranks, int pipe) {
      if (ranks.rank() == slow) {
        ::usleep(100'000);
        tell(pipe, ranks.failure());
      }
      ranks.refuse_together("of no use");
    });
    EXPECT_EQ(told, std::vector<std::string>(3, "? of no use"));
  }
}

// A rank that has knocked, while rank 0 still makes its program.
TEST(Ranks, Rank0TellsThoseWhoWaitForItWhyItDoesNotLetThemIn) {
  World world;
  world.size = 2;
  world.meeting = fmt::format("ranks_test {}", ::getpid());
  world.launcher = "torchrun";
  const auto as = [&](int rank) {
    World one = world;
    one.rank = rank;
    return one;
  };
  int go_on[2];
  ASSERT_EQ(::pipe(go_on), 0);
  const test::Child rank_0([&](int pipe) {
    Ranks ranks(as(0), {});
    tell(pipe, "l");
    char c = 0;
    EXPECT_EQ(::read(go_on[0], &c, 1), 1);
    ranks.fail(InputError("no such file"));
  });
  ASSERT_EQ(rank_0.read(1), "l");
  const test::Child rank_1([&](int pipe) {
    Ranks ranks(as(1), {});
    tell(pipe, "k");
    try {
      ranks.assemble();
    } catch (const InputError& error) {
      tell(pipe, error.what());
    }
  });
  ASSERT_EQ(rank_1.read(1), "k");
  tell(go_on[1], "g");
  EXPECT_EQ(rank_1.read(), "rank 0: no such file");
  for (const int end : go_on) ::close(end);
}

TEST(Ranks, ARankThatIsKilledEndsAllOthers) {
  for (const int killed : {0, 1}) {
    const auto began = std::chrono::steady_clock::now();
    const auto told = on_ranks(3, [&](Ranks& ranks, int) {
      ranks.any(false);
      if (ranks.rank() == killed) ::raise(SIGKILL);
      ranks.any(false);
    });
    EXPECT_LT(std::chrono::steady_clock::now() - began, kNotForEver);
    EXPECT_EQ(told[killed], "");
    const std::string start = "! rank " + std::to_string(killed);
    EXPECT_TRUE(told[2].starts_with(start)) << told[2];
    EXPECT_NE(told[2].find("without a word"), std::string::npos) << told[2];
    EXPECT_EQ(told[killed == 0 ? 1 : 0], told[2]);
  }
}

// One that computes does not meet the others; it ends too, with the code of what another one's end is.
TEST(Ranks, ARankThatIsBusyEndsByItself) {
  for (const bool is_input : {false, true}) {
    for (const int failing : {0, 1}) {
      std::vector<int> codes;
      const auto told = on_ranks(
          2,
          [&](Ranks& ranks, int pipe) {
            ranks.any(false);
            if (ranks.rank() == failing && is_input) throw InputError("enough");
            if (ranks.rank() == failing) throw RunError("enough");
            ::sleep(600);
            tell(pipe, "went on");
          },
          &codes);
      EXPECT_EQ(told[failing], is_input ? "? enough" : "! enough");
      EXPECT_EQ(told[1 - failing], "");
      EXPECT_EQ(codes[1 - failing], is_input ? 2 : 3);
    }
  }
}

// It never comes to the next meeting, and nothing ends it but SIGKILL.
TEST(Ranks, WhoIsAskedToStopDoesNotWaitForARankThatIsStopped) {
  for (const int stopped : {0, 1}) {
    const auto told = on_ranks(3, [&](Ranks& ranks, int pipe) {
      const std::vector<std::string> processes = ranks.gather(std::to_string(::getpid()));
      const pid_t process = std::stoi(processes[static_cast<size_t>(stopped)]);
      install_stop_handlers();
      if (ranks.rank() == stopped) ::raise(SIGSTOP);
      if (ranks.rank() == 2) ::raise(SIGTERM);
      try {
        ranks.any(false);
      } catch (const RunError&) {
        if (ranks.rank() == 2) ::kill(process, SIGKILL);
        throw;
      }
      tell(pipe, "went on");
    });
    EXPECT_EQ(told[static_cast<size_t>(stopped)], "");
    EXPECT_TRUE(told[2].starts_with(stopped == 0 ? "! rank 0 does not answer, and the run was asked to stop"
                                                 : "! the run was asked to stop, and rank 1 (process "))
        << told[2];
    EXPECT_TRUE(told[1 - stopped].starts_with("! ")) << told[1 - stopped];
  }
}

TEST(Ranks, ThatHangAreThoseThatWorkWhileOthersHaveWaitedLong) {
  const Pulse works, waits{.waits = 40}, waits_long{.waits = 50, .waits_long = true};
  const auto trouble = [](const std::vector<Pulse>& pulses, double silence_of_last) {
    std::vector<SeenRank> ranks;
    for (const Pulse& pulse : pulses) ranks.push_back({pulse, 0, false});
    ranks.back().silence = silence_of_last;
    const Trouble found = trouble_of(ranks);
    return fmt::format("{} {} {}", fmt::join(found.ranks, ","), found.is_silent ? "silent" : "late",
                       found.seconds);
  };
  EXPECT_EQ(trouble({works, works, works}, 0), " late 0");
  EXPECT_EQ(trouble({waits, works, waits}, 0), " late 0");  // no longer than usual
  EXPECT_EQ(trouble({waits_long, works, waits}, 0), "1 late 50");
  EXPECT_EQ(trouble({works, waits, waits_long}, 5), "0 late 50");
  EXPECT_EQ(trouble({waits_long, works, works}, 12), "2 silent 12");
  EXPECT_FALSE(is_long_wait(29, 0));
  EXPECT_TRUE(is_long_wait(31, 0));
  EXPECT_FALSE(is_long_wait(200, 100));
}

TEST(Ranks, PulsesAreReadAsTheyWereWritten) {
  const Pulse pulse{1.5, true, false};
  EXPECT_EQ(Pulse::parse(pulse.text()).value().text(), pulse.text());
  EXPECT_FALSE(Pulse::parse("1.5 1"));
}

class Environment : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }

  template <typename Error>
  static std::string refusal() {
    try {
      world_of_environment();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  static void clear() {
    for (const char* name : {"RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "LOCAL_WORLD_SIZE",
                             "GROUP_RANK",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_USE_AGENT_STORE",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMIX_NAMESPACE",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID",
                             "SLURM_PROCID",
                             "SLURM_LOCALID",
                             "SLURM_NODEID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_NUM_NODES",
                             "SLURM_STEP_TASKS_PER_NODE",
                             "SLURM_STEP_NODELIST",
                             "SLURM_JOB_NODELIST",
                             "HYDRAC_RENDEZVOUS",
                             "HYDRAC_RENDEZVOUS_TOKEN",
                             "HYDRAC_ADDRESS",
                             "HYDRAC_STARTED_BY_RANK_0"})
      ::unsetenv(name);
  }
};

TEST_F(Environment, OfLaunchersIsUnderstood) {
  EXPECT_FALSE(world_of_environment());
  set("SLURM_PROCID", "0");  // a batch script, not a step
  set("SLURM_JOB_ID", "7");
  EXPECT_FALSE(world_of_environment());
  set("SLURM_STEP_ID", "2");
  set("SLURM_STEP_NUM_TASKS", "4");
  set("SLURM_PROCID", "3");
  auto found = world_of_environment();
  ASSERT_TRUE(found);
  EXPECT_EQ(std::make_tuple(found->rank, found->size, found->meeting, found->launcher),
            std::make_tuple(3, 4, "7.2", "srun"));
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "2");
  set("PMIX_NAMESPACE", "job-5");
  found = world_of_environment();
  EXPECT_EQ(std::make_tuple(found->rank, found->size, found->meeting, found->launcher),
            std::make_tuple(1, 2, "job-5", "mpirun"));
  set("RANK", "0");
  set("WORLD_SIZE", "8");
  set("MASTER_ADDR", "here");
  set("MASTER_PORT", "1234");
  set("TORCHELASTIC_RUN_ID", "none");
  found = world_of_environment();
  EXPECT_EQ(std::make_tuple(found->rank, found->size, found->meeting, found->launcher),
            std::make_tuple(0, 8, "here:1234 none", "torchrun"));
}

// Also where rank 0 starts the others itself.
TEST_F(Environment, HasTheTokenOfARun) {
  set("RANK", "0");
  set("WORLD_SIZE", "2");
  EXPECT_EQ(world_of_environment()->token, "");
  set("TORCHELASTIC_RUN_ID", "run-7");
  EXPECT_EQ(world_of_environment()->token, "run-7");
  set("HYDRAC_RENDEZVOUS_TOKEN", "secret");
  EXPECT_EQ(world_of_environment()->token, "secret");
  set("HYDRAC_RENDEZVOUS_TOKEN", "two\nlines");
  EXPECT_EQ(refusal<InputError>(),
            "the environment variable HYDRAC_RENDEZVOUS_TOKEN must be one line of at most 255 bytes");
  const World own = own_world(2);
  EXPECT_NE(own.token, own_world(2).token);
  for (const std::string& entry : environment_of(own, 1, 2)) {
    const size_t equals = entry.find('=');
    set(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str());
  }
  EXPECT_EQ(world_of_environment()->token, own.token);
}

TEST_F(Environment, ThatContradictsItselfIsRefused) {
  set("RANK", "4");
  set("WORLD_SIZE", "4");
  EXPECT_EQ(refusal<InputError>(), "the environment variable RANK is \"4\", no number from 0 to 3");
  set("RANK", "3");
  set("WORLD_SIZE", "many");
  EXPECT_EQ(refusal<InputError>(),
            "the environment variable WORLD_SIZE is \"many\", no number from 1 to 256");
  set("WORLD_SIZE", "4");
  set("LOCAL_WORLD_SIZE", "2");
  set("LOCAL_RANK", "2");
  EXPECT_EQ(refusal<InputError>(), "the environment variable LOCAL_RANK is \"2\", no number from 0 to 1");
  set("LOCAL_RANK", "1");
  EXPECT_EQ(refusal<InputError>(),
            "torchrun started ranks on several hosts and does not say which of them has rank 0: set "
            "HYDRAC_RENDEZVOUS=HOST:PORT in the environment of all ranks, with a port that is free there");
  set("HYDRAC_RENDEZVOUS", "node-1");
  EXPECT_EQ(
      refusal<InputError>(),
      "the environment variable HYDRAC_RENDEZVOUS is \"node-1\", and no HOST:PORT such as node-1:29500");
}

// The host's id, the rank there and of how many, where rank 0 waits.
std::string place_text(const std::optional<World>& world) {
  if (!world || !world->host) return "one host";
  const HostPlace& host = *world->host;
  return fmt::format("{} {} {} {} {}", host.id, host.rank, host.ranks, host.rendezvous.text(), host.address);
}

TEST_F(Environment, OfSeveralHostsIsUnderstood) {
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{{"RANK", "3"},
                                                                                    {"WORLD_SIZE", "4"},
                                                                                    {"LOCAL_RANK", "1"},
                                                                                    {"LOCAL_WORLD_SIZE", "2"},
                                                                                    {"GROUP_RANK", "1"},
                                                                                    {"MASTER_ADDR", "node-1"},
                                                                                    {"MASTER_PORT", "29500"}})
    set(name, value);
  EXPECT_EQ(place_text(world_of_environment()), "1 1 2 node-1:29500 ");
  EXPECT_EQ(ranks_of_this_host(4), 2);
  EXPECT_EQ(ranks_of_this_host(8), 8);          // another run than the one that was started
  set("TORCHELASTIC_USE_AGENT_STORE", "True");  // which has that port
  EXPECT_EQ(place_text(world_of_environment()), "1 1 2 node-1:29501 ");
  set("HYDRAC_RENDEZVOUS", "[fe80::1]:7");
  set("HYDRAC_ADDRESS", "10.0.0.2");
  EXPECT_EQ(place_text(world_of_environment()), "1 1 2 [fe80::1]:7 10.0.0.2");
  set("LOCAL_WORLD_SIZE", "4");
  set("LOCAL_RANK", "3");
  EXPECT_EQ(place_text(world_of_environment()), "one host");
}

TEST_F(Environment, OfSeveralHostsOfMpirunIsUnderstood) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"OMPI_COMM_WORLD_RANK", "2"},
                                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                        {"HYDRAC_RENDEZVOUS", "node-1:7000"}})
    set(name, value);
  EXPECT_EQ(place_text(world_of_environment()), host_name() + " 0 2 node-1:7000 ");
}

TEST_F(Environment, OfSeveralHostsOfSlurmIsUnderstood) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"SLURM_JOB_ID", "1234567"},
                                                        {"SLURM_STEP_ID", "2"},
                                                        {"SLURM_PROCID", "4"},
                                                        {"SLURM_LOCALID", "0"},
                                                        {"SLURM_NODEID", "2"},
                                                        {"SLURM_STEP_NUM_TASKS", "5"},
                                                        {"SLURM_STEP_NUM_NODES", "3"},
                                                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                                                        {"SLURM_STEP_NODELIST", "gpu[08-10]"}})
    set(name, value);
  EXPECT_EQ(place_text(world_of_environment()), "2 0 1 gpu08:24769 ");
  set("MASTER_ADDR", "other");
  set("MASTER_PORT", "29500");
  EXPECT_EQ(place_text(world_of_environment()), "2 0 1 other:29500 ");
  set("SLURM_STEP_TASKS_PER_NODE", "2(x2)");
  EXPECT_EQ(
      refusal<InputError>(),
      "the environment variable SLURM_STEP_TASKS_PER_NODE is \"2(x2)\", which does not say how many ranks "
      "node 2 (SLURM_NODEID) has");
}

TEST_F(Environment, OfAnOwnWorldIsThatOfItsRanks) {
  const World own = own_world(3);
  for (const std::string& entry : environment_of(own, 2, 9)) {
    const size_t equals = entry.find('=');
    set(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str());
  }
  const auto found = world_of_environment();
  ASSERT_TRUE(found);
  EXPECT_EQ(std::make_tuple(found->rank, found->size, found->meeting, found->launcher, found->errors),
            std::make_tuple(2, 3, own.meeting, "hydrac", 9));
}

}  // namespace
}  // namespace hydrac::runtime
