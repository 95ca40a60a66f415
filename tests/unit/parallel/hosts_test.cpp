// Ranks of several hosts, which are groups of processes of this machine with loopback addresses of their own.
#include "runtime/parallel/hosts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime/parallel/host_links.h"
#include "runtime/parallel/slurm.h"
#include "runtime/parallel/tcp.h"
#include "tests/unit/support/on_ranks.h"
#include "tests/unit/support/reserved_port.h"

namespace hydrac::runtime {
namespace {

using test::Child;
using test::in_worlds;
using test::on_ranks;
using test::OnRank;
using test::tell;

// The ranks of each host; host h has the address 127.0.0.(h + 1).
std::vector<World> worlds_of(const std::vector<std::vector<int>>& hosts) {
  World world;
  for (const auto& ranks : hosts) world.size += static_cast<int>(ranks.size());
  --world.size;
  const int port = test::reserve_port();
  world.meeting = fmt::format("hosts_test {} {}", ::getpid(), port);
  world.launcher = "torchrun";
  std::vector<World> worlds(static_cast<size_t>(world.size));
  for (size_t h = 0; h < hosts.size(); ++h) {
    for (size_t i = 0; i < hosts[h].size(); ++i) {
      world.rank = hosts[h][i];
      world.host = HostPlace{fmt::format("{}", h),
                             static_cast<int>(i),
                             static_cast<int>(hosts[h].size()),
                             {"127.0.0.1", port},
                             fmt::format("127.0.0.{}", h + 1)};
      worlds[static_cast<size_t>(world.rank)] = world;
    }
  }
  return worlds;
}

float value(int rank, size_t i) {
  return static_cast<float>(
      static_cast<double>((i * 2654435761u + static_cast<size_t>(rank) * 40503u) % 1000003) *
      (rank % 2 == 0 ? 1e-3 : -1e4));
}

// Of all bits; pipes are too short for them.
std::string hash_of(const std::vector<float>& numbers) {
  uint64_t hash = 14695981039346656037u;
  for (const float number : numbers) hash = (hash ^ std::bit_cast<uint32_t>(number)) * 1099511628211u;
  return fmt::format("{:016x} ", hash);
}

// Every function of Ranks on numbers of several pieces; tells all that it got.
void exchange_everything(Ranks& ranks, int pipe) {
  constexpr size_t kPart = 70'001;
  const auto n = static_cast<size_t>(ranks.size());
  std::vector<float> data(n * kPart), part(kPart), gathered(n * kPart);
  for (size_t i = 0; i < data.size(); ++i) data[i] = value(ranks.rank(), i);
  std::string told;
  for (int turn = 0; turn < 2; ++turn) {
    ranks.reduce_scatter(data, part);
    ranks.all_gather(part, gathered);
    ranks.all_reduce(data);
    told += hash_of(part) + hash_of(gathered) + hash_of(data);
    told += fmt::format("{}", ranks.share(ranks.leads() ? std::string(100'000, 'a') : "not this").size());
    for (const std::string& text : ranks.gather(std::string(static_cast<size_t>(ranks.rank()), 'x')))
      told += "," + text;
    for (int i = 0; i < 5; ++i) told += ranks.any(ranks.rank() == 1 && i == 3) ? "1" : "0";
    ranks.collect(std::as_bytes(std::span(data)),
                  [&](int rank, size_t first, std::span<const std::byte> bytes) {
                    told += fmt::format("\n{} {} {:02x}", rank, first, static_cast<unsigned>(bytes.back()));
                  });
  }
  tell(pipe, told);
}

TEST(Hosts, ExchangeTheSameBitsAsTheRanksOfOne) {
  const std::vector<std::string> expected = on_ranks(4, exchange_everything);
  const std::vector<std::vector<std::vector<int>>> divisions = {
      {{0, 1}, {2, 3}}, {{0}, {1, 2}, {3}}, {{0, 2}, {1, 3}}, {{0}, {1}, {2}, {3}}};
  for (const auto& hosts : divisions)
    EXPECT_TRUE(in_worlds(worlds_of(hosts), exchange_everything) == expected);
}

void exchange_in_groups(Ranks& ranks, int pipe) {
  constexpr size_t kCount = 300'001;
  ranks.share_layers(2);
  std::vector<float> own(kCount), layers(kCount), batches(kCount), gathered(2 * kCount);
  for (size_t i = 0; i < kCount; ++i) own[i] = value(ranks.rank(), i);
  ranks.all_reduce(own, layers, RankGroup::tensor);
  ranks.all_reduce(own, batches, RankGroup::data);
  ranks.all_gather(own, gathered, RankGroup::tensor);
  tell(pipe, hash_of(layers) + hash_of(batches) + hash_of(gathered));
}

TEST(Hosts, ExchangeInGroups) {
  const std::vector<std::string> expected = on_ranks(4, exchange_in_groups);
  EXPECT_TRUE(in_worlds(worlds_of({{0, 1}, {2, 3}}), exchange_in_groups) == expected);
}

TEST(Hosts, AreKnownToAllRanks) {
  const std::string host = host_name();
  const auto told = in_worlds(worlds_of({{0, 1}, {2, 3}}), [](Ranks& ranks, int pipe) {
    tell(pipe, fmt::format("{}, {}", ranks.hosts().size(), ranks.name(3)));
  });
  EXPECT_EQ(told, std::vector<std::string>(4, fmt::format("2, rank 3 on host {} (127.0.0.2)", host)));
}

TEST(Hosts, ARankThatIsKilledEndsAllOthers) {
  for (const int killed : {0, 1, 2, 3}) {
    const auto began = std::chrono::steady_clock::now();
    const auto told = in_worlds(worlds_of({{0, 1}, {2, 3}}), [&](Ranks& ranks, int) {
      ranks.any(false);
      if (ranks.rank() == killed) ::raise(SIGKILL);
      for (;;) ranks.any(false);
    });
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(120));
    const std::string start =
        fmt::format("! rank {} on host {} (127.0.0.{})", killed, host_name(), killed / 2 + 1);
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == killed) continue;
      EXPECT_TRUE(told[rank].starts_with(start)) << rank << ": " << told[rank];
      EXPECT_NE(told[rank].find("without a word"), std::string::npos) << told[rank];
    }
  }
}

TEST(Hosts, ARankThatFailsTellsAllOthersWhy) {
  const auto told = in_worlds(worlds_of({{0, 1}, {2, 3}}), [](Ranks& ranks, int) {
    if (ranks.rank() == 3) throw RunError("out of luck");
    ranks.any(false);
  });
  for (const int rank : {0, 1, 2}) {
    EXPECT_TRUE(told[rank].starts_with(fmt::format("! rank 3 on host {} (127.0.0.2) (process ", host_name())))
        << told[rank];
    EXPECT_TRUE(told[rank].ends_with("): out of luck")) << told[rank];
  }
}

TEST(Hosts, WhatOneRankFindsBadIsBadInputOnAll) {
  for (const int failing : {0, 1, 2, 3}) {
    const auto told = in_worlds(worlds_of({{0, 1}, {2, 3}}), [&](Ranks& ranks, int) {
      if (ranks.rank() == failing) throw InputError("no such file");
      ranks.any(false);
    });
    for (const int rank : {0, 1, 2, 3}) {
      const std::string start = rank == failing ? "? no" : fmt::format("? rank {} on host ", failing);
      EXPECT_TRUE(told[rank].starts_with(start)) << told[rank];
      EXPECT_TRUE(told[rank].ends_with("no such file")) << told[rank];
    }
  }
}

// While the others compute, which it waits for.
TEST(Hosts, WhatOneRankFindsBadEndsThoseThatAreBusyAsBadInput) {
  for (const int failing : {0, 3}) {
    int busy[2];
    ASSERT_EQ(::pipe(busy), 0);
    std::vector<int> codes;
    in_worlds(
        worlds_of({{0, 1}, {2, 3}}),
        [&](Ranks& ranks, int) {
          if (ranks.rank() != failing) {
            tell(busy[1], "b");
            ::sleep(600);
          }
          char c = 0;
          for (int others = 3; others > 0; --others) EXPECT_EQ(::read(busy[0], &c, 1), 1);
          throw InputError("no such file");
        },
        &codes);
    for (const int rank : {0, 1, 2, 3}) EXPECT_EQ(codes[rank], rank == failing ? 0 : 2) << rank;
    for (const int end : busy) ::close(end);
  }
}

// It reads nothing while the others send more than their connection takes.
TEST(Hosts, WaitForASlowRank) {
  const auto told = in_worlds(worlds_of({{0}, {1}}), [](Ranks& ranks, int pipe) {
    std::vector<float> data(4'000'000, static_cast<float>(ranks.rank() + 1));
    if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ranks.all_reduce(data);
    tell(pipe, fmt::format("{} {}", data.front(), data.back()));
  });
  EXPECT_EQ(told, std::vector<std::string>(2, "3 3"));
}

// Ranks as they are started one after the other, each in a process of its own.
std::unique_ptr<Child> started(const World& world, const OnRank& body) {
  return std::make_unique<Child>([&world, &body](int pipe) {
    std::unique_ptr<Ranks> ranks;
    try {
      ranks = std::make_unique<Ranks>(world, std::vector<std::string>());
      ranks->assemble();
      body(*ranks, pipe);
      ranks->finish();
    } catch (const RunError& error) {
      if (ranks) ranks->fail(error);
      tell(pipe, std::string("! ") + error.what());
    }
  });
}

int connected_to(const Endpoint& endpoint) {
  std::string why;
  int file = -1;
  while ((file = connect_to(endpoint, "", why)) < 0) std::this_thread::yield();
  return file;
}

const OnRank kNothing = [](Ranks& ranks, int pipe) { tell(pipe, ranks.any(true) ? "well" : "no"); };

TEST(Hosts, WhoIsNoRankIsSentAway) {
  const std::vector<World> worlds = worlds_of({{0}, {1}});
  const auto rank_0 = started(worlds[0], kNothing);
  std::vector<int> strangers;
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("h\0\0\0\5\0\0\0hello", 13),
        std::string("h\0\0\0\xff\xff\xff\xffhello", 13)}) {
    strangers.push_back(connected_to(worlds[0].host->rendezvous));
    ASSERT_EQ(::send(strangers.back(), words.data(), words.size(), 0), std::ssize(words));
  }
  const auto rank_1 = started(worlds[1], kNothing);
  EXPECT_EQ(rank_0->read(), "well");
  EXPECT_EQ(rank_1->read(), "well");
  for (const int stranger : strangers) {
    char c = 0;
    EXPECT_LE(::recv(stranger, &c, 1, 0), 0);
    ::close(stranger);
  }
}

// More than rank 0 keeps, one of which says a byte now and then. None has a word for the rank that comes
// last.
TEST(Hosts, StrangersKeepNoRankOut) {
  const std::vector<World> worlds = worlds_of({{0, 1}, {2}});
  const auto rank_0 = started(worlds[0], kNothing);
  std::vector<int> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(connected_to(worlds[0].host->rendezvous));
  ASSERT_EQ(::send(strangers.back(), "h", 1, 0), 1);
  const auto rank_1 = started(worlds[1], kNothing), rank_2 = started(worlds[2], kNothing);
  for (const auto& rank : {&rank_0, &rank_1, &rank_2}) EXPECT_EQ((*rank)->read(), "well");
  for (const int stranger : strangers) ::close(stranger);
}

// Who knows all of a run but its secret is none of its ranks, and does not end it.
TEST(Hosts, ARankWithoutTheTokenIsSentAway) {
  std::vector<World> worlds = worlds_of({{0}, {1}});
  for (World& world : worlds) world.token = "secret";
  const auto rank_0 = started(worlds[0], kNothing);
  World other = worlds[1];
  other.token = "guessed";
  const std::string told = started(other, kNothing)->read();
  EXPECT_TRUE(told.starts_with("! the rank 0 that is there has another HYDRAC_RENDEZVOUS_TOKEN, or is of"))
      << told;
  EXPECT_EQ(told.find("secret"), std::string::npos);
  const auto rank_1 = started(worlds[1], kNothing);
  EXPECT_EQ(rank_0->read(), "well");
  EXPECT_EQ(rank_1->read(), "well");
}

// Which is none of ours, and goes; ours waits for its own ranks.
TEST(Hosts, ARankOfAnotherRunIsSentAway) {
  const std::vector<World> worlds = worlds_of({{0}, {1}});
  const auto rank_0 = started(worlds[0], kNothing);
  World other = worlds[1];
  other.meeting = "another";
  const auto stranger = started(other, kNothing);
  const std::string told = stranger->read();
  EXPECT_TRUE(told.starts_with("! rank 0 of another run is there, hosts_test ")) << told;
  const auto rank_1 = started(worlds[1], kNothing);
  EXPECT_EQ(rank_0->read(), "well");
}

TEST(Hosts, AnotherNumberOfRanksIsAnError) {
  std::vector<World> worlds = worlds_of({{0}, {1}});
  worlds[1].size = 3;
  const auto told = in_worlds(worlds, kNothing);
  const std::string problem = fmt::format(
      "rank 1 on host {} (127.0.0.2) was started as one of 3 ranks, and rank 0 as one of 2", host_name());
  EXPECT_EQ(told, (std::vector<std::string>{"! " + problem, "! " + problem}));
}

TEST(Hosts, TwoRanksOfOneNumberAreAnError) {
  const std::vector<World> worlds = worlds_of({{0}, {1}, {2}});
  World twin = worlds[2];
  twin.rank = 1;
  const auto rank_0 = started(worlds[0], kNothing), rank_1 = started(worlds[1], kNothing),
             second = started(twin, kNothing);
  EXPECT_NE(rank_0->read().find("came twice: process "), std::string::npos);
  EXPECT_NE(rank_1->read().find("! "), std::string::npos);
  EXPECT_NE(second->read().find("! "), std::string::npos);
}

TEST(Hosts, OfOneNameAreAnError) {
  std::vector<World> worlds = worlds_of({{0, 1}, {2, 3}, {4}});
  worlds[4].host->id = "1";
  worlds[4].host->rank = 1;
  worlds[4].host->ranks = 2;
  const auto told = in_worlds(worlds, kNothing);
  EXPECT_NE(told[0].find("do two hosts have one name"), std::string::npos) << told[0];
}

TEST(HostLinks, RefuseWhatIsNotExpected) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  HostLinks links({-1, ends[0]}, {"here", "there (10.0.0.2)"});
  const uint64_t start[2] = {1, 1 << 30};
  ASSERT_EQ(::send(ends[1], start, sizeof start, 0), static_cast<ssize_t>(sizeof start));
  std::byte place[8];
  try {
    links.exchange([&](int) { return HostLinks::Exchange{{}, {place}}; }, [] { return false; });
    FAIL() << "it was taken";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(),
                 "lost the connection to host there (10.0.0.2): it sends 1073741824 bytes as number 1, not 8 "
                 "as number 1");
  }
  ::close(ends[1]);
}

TEST(Hello, IsReadAsItWasWrittenAndNothingElseIs) {
  const Hello hello{"run 7", 3, 4, 99, "1", 1, 2, "node-1", "10.0.0.1", 2000, "a secret"};
  const auto read = Hello::parse(hello.text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text(), hello.text());
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"ranks 2", "ranks 1"},
                                                                                 {"3 4 99", "3 4"},
                                                                                 {"3 4 99", "-1 4 99"},
                                                                                 {"3 4 99", "3 400000 99"},
                                                                                 {"node-1", "node 1"},
                                                                                 {"node-1", "no\nde"},
                                                                                 {"2000", "70000"},
                                                                                 {"10.0.0.1", "$(x)"}}) {
    std::string text = hello.text();
    text.replace(text.find(from), from.size(), to);
    EXPECT_FALSE(Hello::parse(text)) << text;
  }
  EXPECT_FALSE(Hello::parse(""));
}

TEST(RosterOfHosts, HasEachRankOnce) {
  const Roster roster{"secret", {{"0", "a", "10.0.0.1", 0, {0, 1}}, {"1", "b", "10.0.0.2", 7, {2}}}};
  const auto read = Roster::parse(roster.text(), 3);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text(), roster.text());
  EXPECT_EQ(read->host_of(2), 1);
  EXPECT_FALSE(Roster::parse(roster.text(), 4));
  EXPECT_FALSE(Roster::parse(roster.text(), 2));
  EXPECT_FALSE(Roster::parse(roster.text() + "\n2 c 10.0.0.3 7 2", 3));
  EXPECT_FALSE(Roster::parse(roster.text() + "\nx", 3));
}

TEST(Slurm, ListsAreRead) {
  EXPECT_EQ(first_slurm_host("node[007-009,12],login"), "node007");
  EXPECT_EQ(first_slurm_host("a[3,5]-ib,b"), "a3-ib");
  EXPECT_EQ(first_slurm_host("one,two"), "one");
  EXPECT_EQ(first_slurm_host("bad[1"), "");
  const std::string counts = "2(x3),1";
  EXPECT_EQ(slurm_count(counts, 0), 2);
  EXPECT_EQ(slurm_count(counts, 2), 2);
  EXPECT_EQ(slurm_count(counts, 3), 1);
  EXPECT_FALSE(slurm_count(counts, 4));
  EXPECT_FALSE(slurm_count("many", 0));
  EXPECT_FALSE(slurm_count("2(3)", 1));
}

TEST(Endpoints, AreRead) {
  for (const char* text : {"node-1:29500", "10.0.0.1:80", "[fe80::1]:29500"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(endpoint->text(), text);
  }
  for (const char* text : {"node-1", ":80", "node-1:", "node-1:0", "node-1:65536", "fe80::1:29500", "a:1b"})
    EXPECT_FALSE(parse_endpoint(text)) << text;
}

}  // namespace
}  // namespace hydrac::runtime
