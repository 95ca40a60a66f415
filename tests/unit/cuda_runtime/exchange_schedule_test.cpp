// Several ranks carry out schedules on one processor, in random orders that their queues and flags allow:
// results are those of ranks on the cpu, and nothing is read while another operation writes it.
#include "runtime/cuda/exchange/exchange_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/parallel/owned_slots.h"

namespace hydrac::runtime::cuda {
namespace {

constexpr std::int64_t kArena = 1 << 20;
constexpr std::int64_t kBuffer = kArena / 2;  // where the buffer begins

struct Range {
  int rank = 0;
  std::int64_t first = 0, last = 0;
  bool writes = false;
};

bool conflict(const Range& a, const Range& b) {
  return a.rank == b.rank && a.first < b.last && b.first < a.last && (a.writes || b.writes);
}

// An operation of a queue: it may begin when `ready` says so, and takes time: its memory is its own until it
// ends.
struct Operation {
  std::function<bool()> ready = [] { return true; };
  bool is_copy = false;
  std::vector<Range> touched;
  std::function<void()> work = [] {};
};

struct Queue {
  int rank = 0;
  std::vector<Operation> operations;
  std::size_t next = 0;  // all before it have ended
  bool running = false;
};

// Which operations go on late: of those that are able to, one of the others is preferred.
enum class Late { none, copies, sums, rank_0 };

class Machine {
 public:
  explicit Machine(int ranks)
      : arenas(static_cast<std::size_t>(ranks), std::vector<float>(kArena / 4)),
        queues(static_cast<std::size_t>(ranks), std::vector<Queue>(static_cast<std::size_t>(ranks))),
        flags(static_cast<std::size_t>(ranks), std::vector<int>(static_cast<std::size_t>(2 * ranks))) {
    for (int rank = 0; rank < ranks; ++rank)
      for (Queue& queue : queues[static_cast<std::size_t>(rank)]) queue.rank = rank;
  }

  float* at(int rank, std::int64_t offset) {
    return arenas[static_cast<std::size_t>(rank)].data() + offset / 4;
  }
  int& flag(int rank, int of, ExchangeFlag which) {
    const int place = 2 * of + (which == ExchangeFlag::done ? 1 : 0);
    return flags[static_cast<std::size_t>(rank)][static_cast<std::size_t>(place)];
  }
  Queue& queue(int rank, int number) {
    return queues[static_cast<std::size_t>(rank)][static_cast<std::size_t>(number)];
  }

  // Begins and ends operations in a random order. Throws where none can, or two touch the same memory.
  void run(unsigned seed, Late late) {
    std::mt19937 random(seed);
    for (;;) {
      std::vector<Queue*> able;
      bool finished = true;
      for (std::vector<Queue>& of_rank : queues) {
        for (Queue& queue : of_rank) {
          if (queue.next == queue.operations.size()) continue;
          finished = false;
          if (queue.running || queue.operations[queue.next].ready()) able.push_back(&queue);
        }
      }
      if (finished) return;
      if (able.empty()) throw std::runtime_error("the ranks wait for each other");
      std::vector<Queue*> early = able;
      std::erase_if(early, [&](const Queue* queue) { return is_late(*queue, late); });
      if (!early.empty()) able = early;
      advance(*able[random() % able.size()]);
    }
  }

  std::vector<std::vector<float>> arenas;
  std::vector<std::vector<Queue>> queues;
  std::vector<std::vector<int>> flags;

 private:
  static bool is_late(const Queue& queue, Late late) {
    const bool is_copy = queue.operations[queue.next].is_copy;
    if (late == Late::rank_0) return queue.rank == 0;
    if (late == Late::copies) return is_copy && queue.running;
    return late == Late::sums && !is_copy && queue.running;
  }

  void advance(Queue& queue) {
    Operation& operation = queue.operations[queue.next];
    if (!queue.running) {
      for (const Queue* other : running_)
        for (const Range& a : other->operations[other->next].touched)
          for (const Range& b : operation.touched)
            if (conflict(a, b))
              throw std::runtime_error(fmt::format("rank {}: bytes {} to {} are touched twice at a time",
                                                   b.rank, b.first, b.last));
      queue.running = true;
      running_.push_back(&queue);
      return;
    }
    operation.work();
    queue.running = false;
    ++queue.next;
    std::erase(running_, &queue);
  }

  std::vector<Queue*> running_;
};

// One rank of a machine, or of one whose GPU runs all queues as one.
class SimulatedQueues : public ExchangeQueues {
 public:
  // What a faulty schedule would not wait for.
  enum class Missing { nothing, ready, done, copies, sums };

  SimulatedQueues(Machine& machine, Member member, bool one_queue = false, Missing missing = Missing::nothing)
      : machine_(machine), member_(member), one_queue_(one_queue), missing_(missing) {}

  void tell(int queue, int peer, ExchangeFlag flag) override {
    int& word = machine_.flag(peer, member_.rank, flag);
    put(queue, {.work = [&word] {
          if (word != 0) throw std::runtime_error("a flag is set twice");
          word = 1;
        }});
  }
  void await(int queue, int peer, ExchangeFlag flag) override {
    int& word = machine_.flag(member_.rank, peer, flag);
    const bool is_ready = flag == ExchangeFlag::ready;
    if (missing_ == (is_ready ? Missing::ready : Missing::done)) return;
    put(queue, {.ready = [&word] { return word != 0; }, .work = [&word] { word = 0; }});
  }
  void copy(int queue, int peer, const ExchangeCopy& copy) override {
    put(queue, {.is_copy = true,
                .touched = {{peer, copy.from, copy.from + copy.bytes, false},
                            {member_.rank, copy.to, copy.to + copy.bytes, true}},
                .work = [this, peer, copy] {
                  std::memmove(machine_.at(member_.rank, copy.to), machine_.at(peer, copy.from),
                               static_cast<std::size_t>(copy.bytes));
                }});
  }
  void sum(const ExchangeSum& sum) override {
    std::vector<Range> touched = {{member_.rank, sum.to, sum.to + 4 * sum.count, true}};
    for (const std::int64_t term : sum.terms)
      if (term != sum.to) touched.push_back({member_.rank, term, term + 4 * sum.count, false});
    put(0, {.touched = touched, .work = [this, sum] {
              for (std::int64_t i = 0; i < sum.count; ++i) {
                float total = 0;
                for (const std::int64_t term : sum.terms) total += machine_.at(member_.rank, term)[i];
                machine_.at(member_.rank, sum.to)[i] = total;
              }
            }});
  }
  int mark(int queue) override {
    const int real = number(queue);
    marks_.emplace_back(real, machine_.queue(member_.rank, real).operations.size());
    return static_cast<int>(marks_.size()) - 1;
  }
  void wait(int queue, int mark) override {
    const auto [of, place] = marks_.at(static_cast<std::size_t>(mark));
    const Queue& other = machine_.queue(member_.rank, of);
    if (missing_ == (queue == 0 ? Missing::copies : Missing::sums)) return;
    put(queue, {.ready = [&other, place = place] { return other.next >= place; }});
  }
  // The tensor is computed anew.
  void write(std::int64_t at, const std::vector<float>& values) {
    const auto bytes = static_cast<std::int64_t>(4 * values.size());
    put(0, {.touched = {{member_.rank, at, at + bytes, true}},
            .work = [this, at, values] { std::ranges::copy(values, machine_.at(member_.rank, at)); }});
  }
  // And is read by what comes next.
  void expect(std::int64_t at, const std::vector<float>& values) {
    const auto bytes = static_cast<std::int64_t>(4 * values.size());
    put(0, {.touched = {{member_.rank, at, at + bytes, false}}, .work = [this, at, values] {
              const float* found = machine_.at(member_.rank, at);
              if (!std::equal(values.begin(), values.end(), found))
                throw std::runtime_error(fmt::format("rank {} has other numbers at {}", member_.rank, at));
            }});
  }

 private:
  int number(int queue) const { return one_queue_ ? 0 : queue; }
  void put(int queue, Operation operation) {
    machine_.queue(member_.rank, number(queue)).operations.push_back(std::move(operation));
  }

  Machine& machine_;
  Member member_;
  bool one_queue_;
  Missing missing_;
  std::vector<std::pair<int, std::size_t>> marks_;
};

// A rank's numbers: sums of them depend on their order.
std::vector<float> numbers(int rank, int step, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(1000 * step + rank));
  std::normal_distribution<float> normal(0, rank == 1 ? 1e4f : 1.0f);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> summed(int ranks, int step, std::int64_t count) {
  std::vector<float> sum(static_cast<std::size_t>(count));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> term = numbers(rank, step, count);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  }
  return sum;
}

std::vector<float> slice(const std::vector<float>& all, std::int64_t first, std::int64_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

using Program = std::function<void(SimulatedQueues& queues, Member member)>;

// In many orders, and as GPUs that run one queue after the other.
void run_ranks(int ranks, const Program& program) {
  for (const bool one_queue : {false, true}) {
    for (unsigned seed = 0; seed < 8; ++seed) {
      const Late late = static_cast<Late>(seed % 4);
      Machine machine(ranks);
      std::vector<std::unique_ptr<SimulatedQueues>> all;
      for (int rank = 0; rank < ranks; ++rank) {
        all.push_back(std::make_unique<SimulatedQueues>(machine, Member{rank, ranks}, one_queue));
        program(*all.back(), {rank, ranks});
      }
      ASSERT_NO_THROW(machine.run(seed, late)) << ranks << " ranks, order " << seed;
      for (const std::vector<int>& flags : machine.flags)
        for (const int flag : flags) EXPECT_EQ(flag, 0);
    }
  }
}

class ExchangeOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExchangeOf, testing::Values(2, 3, 8));

TEST_P(ExchangeOf, AllReduceAddsInTheOrderOfRanks) {
  for (const std::int64_t count : {1, 1000, 20'001}) {
    const ArenaElements first{0, 0, count}, second{256 * 1024, 256 * 1024, 77};
    const std::vector<ArenaElements> tensors = {first, second};
    run_ranks(GetParam(), [&](SimulatedQueues& queues, Member member) {
      for (int step = 0; step < 2; ++step) {
        queues.write(first.from, numbers(member.rank, step, count));
        queues.write(second.from, numbers(member.rank, step + 50, 77));
        carry_out(schedule({Collective::all_reduce}, member, tensors, {kBuffer, kArena - kBuffer}), member,
                  queues);
        queues.expect(first.to, summed(member.size, step, count));
        queues.expect(second.to, summed(member.size, step + 50, 77));
      }
    });
  }
}

// The two halves of a small buffer take turns.
TEST_P(ExchangeOf, ReduceScatterWorksInPieces) {
  constexpr std::int64_t kCount = 2048 + 64;
  const ArenaElements tensor{.from = 0, .to = 256 * 1024, .count = kCount};
  const std::vector<ArenaElements> tensors = {tensor};
  for (const std::int64_t room : {2 * 256, 8 * 256, 64 * 256}) {
    const ExchangeBuffer buffer{kBuffer, room * (GetParam() - 1)};
    const ExchangeSchedule first = schedule({Collective::reduce_scatter}, {0, GetParam()}, tensors, buffer);
    EXPECT_EQ(first.front().pieces.size() == 1, room == 64 * 256);
    run_ranks(GetParam(), [&](SimulatedQueues& queues, Member member) {
      for (int step = 0; step < 2; ++step) {
        queues.write(tensor.from, numbers(member.rank, step, kCount * member.size));
        carry_out(schedule({Collective::reduce_scatter}, member, tensors, buffer), member, queues);
        queues.expect(tensor.to,
                      slice(summed(member.size, step, kCount * member.size), kCount * member.rank, kCount));
      }
    });
  }
}

TEST_P(ExchangeOf, AllGatherPutsPartsInTheOrderOfRanks) {
  constexpr std::int64_t kCount = 300;
  run_ranks(GetParam(), [&](SimulatedQueues& queues, Member member) {
    const ArenaElements tensor{.from = 256 * 1024, .to = 0, .count = kCount};
    const std::vector<ArenaElements> tensors = {tensor};
    for (int step = 0; step < 2; ++step) {
      queues.write(tensor.from, numbers(member.rank, step, kCount));
      carry_out(schedule({Collective::all_gather}, member, tensors, {}), member, queues);
      std::vector<float> whole;
      for (int rank = 0; rank < member.size; ++rank)
        for (const float value : numbers(rank, step, kCount)) whole.push_back(value);
      queues.expect(tensor.to, whole);
    }
  });
}

TEST_P(ExchangeOf, SlotsGoToTheirOwnersAndBack) {
  constexpr std::int64_t kCount = 40, kSlots = 7;
  run_ranks(GetParam(), [&](SimulatedQueues& queues, Member member) {
    const std::int64_t parts_at = 256 * 1024, whole_at = 0;
    const std::vector<ArenaElements> there = {
        {.from = parts_at, .to = whole_at, .count = kCount, .slots = kSlots}};
    const std::vector<ArenaElements> back = {
        {.from = whole_at, .to = parts_at, .count = kCount, .slots = kSlots}};
    const std::int64_t own = owned_slots(kSlots, member.size);
    queues.write(parts_at, numbers(member.rank, 0, kCount * kSlots));
    carry_out(schedule({Collective::to_owners}, member, there, {}), member, queues);
    for (std::int64_t slot = own * member.rank; slot < std::min(kSlots, own * (member.rank + 1)); ++slot) {
      for (int rank = 0; rank < member.size; ++rank) {
        const std::vector<float> parts = numbers(rank, 0, kCount * kSlots);
        const std::int64_t block = (slot - own * member.rank) * member.size + rank;
        queues.expect(whole_at + 4 * kCount * block, slice(parts, slot * kCount, kCount));
      }
    }
    queues.write(parts_at, std::vector<float>(kCount * kSlots));
    carry_out(schedule({Collective::from_owners}, member, back, {}), member, queues);
    queues.expect(parts_at, numbers(member.rank, 0, kCount * kSlots));
  });
}

// Each of the waits is needed, and these simulations find where one is missing.
TEST(ExchangeSchedule, WithoutAWaitSomethingIsTouchedTwice) {
  using Missing = SimulatedQueues::Missing;
  constexpr std::int64_t kCount = 1024;
  const std::vector<ArenaElements> tensors = {{.from = 0, .to = 256 * 1024, .count = kCount}};
  const ExchangeBuffer buffer{kBuffer, 4 * 256};
  const auto is_found = [&](Missing missing) {
    for (unsigned seed = 0; seed < 40; ++seed) {
      Machine machine(2);
      std::vector<std::unique_ptr<SimulatedQueues>> all;
      for (int rank = 0; rank < 2; ++rank) {
        all.push_back(std::make_unique<SimulatedQueues>(machine, Member{rank, 2}, false, missing));
        for (int step = 0; step < 2; ++step) {
          all.back()->write(0, numbers(rank, step, 2 * kCount));
          carry_out(schedule({Collective::reduce_scatter}, {rank, 2}, tensors, buffer), {rank, 2},
                    *all.back());
          all.back()->expect(256 * 1024, slice(summed(2, step, 2 * kCount), kCount * rank, kCount));
        }
      }
      try {
        machine.run(seed, static_cast<Late>(seed % 4));
      } catch (const std::runtime_error&) {
        return true;
      }
    }
    return false;
  };
  EXPECT_FALSE(is_found(Missing::nothing));
  for (const Missing missing : {Missing::ready, Missing::done, Missing::copies, Missing::sums})
    EXPECT_TRUE(is_found(missing)) << static_cast<int>(missing);
}

// A peer's memory is first read by one rank alone.
TEST(ExchangeSchedule, EachRankBeginsWithAnotherPeer) {
  const std::vector<ArenaElements> tensors = {{.from = 4096, .to = 0, .count = 64}};
  std::vector<int> first;
  for (int rank = 0; rank < 4; ++rank)
    first.push_back(
        schedule({Collective::all_gather}, {rank, 4}, tensors, {})[0].pieces[0].from_peers[0].peer);
  EXPECT_EQ(first, (std::vector<int>{1, 2, 3, 0}));
}

TEST(ExchangeSchedule, BufferHoldsWhatASumCopiesUpToItsLimit) {
  for (const int ranks : {2, 4, 8}) {
    const std::int64_t count = std::int64_t{1} << 20;
    const std::vector<ArenaElements> tensors = {{.to = 64 << 20, .count = count / ranks}};
    const ExchangeBuffer buffer{0, exchange_buffer_bytes(ranks, 4 * count, 1)};
    EXPECT_EQ(schedule({Collective::reduce_scatter}, {0, ranks}, tensors, buffer)[0].pieces.size(), 1u);
    const std::vector<ArenaElements> whole = {{0, 0, count}};
    EXPECT_EQ(schedule({Collective::all_reduce}, {0, ranks}, whole, buffer)[0].pieces.size(), 1u);
  }
  EXPECT_EQ(exchange_buffer_bytes(4, std::int64_t{1} << 34, 1), 128 << 20);
  EXPECT_LT(exchange_buffer_bytes(8, 4, 1), 64 << 10);
}

}  // namespace
}  // namespace hydrac::runtime::cuda
