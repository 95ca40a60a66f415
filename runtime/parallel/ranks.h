// The processes of one data-parallel run, its ranks: who is there, sums over all of them, and one end for
// all. Rank 0 leads: it has the console, the run's folder and, where no launcher did, it starts the others.
//
// Each rank has a socket to rank 0 that says when the other end is gone, however it went, and memory that all
// of them share. Every rank calls the members below in the same order; each returns when all have called it.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/parallel/rank_socket.h"
#include "runtime/parallel/shared_board.h"
#include "runtime/parallel/started_ranks.h"
#include "runtime/parallel/world.h"

namespace hydrac::runtime {

// `tensor`: ranks that share layers, which are consecutive ones. `data`: those at the same place among these,
// which share a step's micro-batches. Where nothing else is said, all ranks are one data group.
enum class RankGroup { data, tensor };

class Ranks {
 public:
  // Rank 0 listens for the others; they knock. `command`: this program's arguments, with which rank 0 starts
  // the others in assemble(); empty where a launcher started them. InputError, RunError.
  Ranks(const World& world, std::vector<std::string> command);
  // Without finish(): the other ranks end too.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  bool leads() const { return world_.rank == 0; }

  // From now on so many consecutive ranks share layers; they divide size().
  void share_layers(int ranks) { layer_ranks_ = ranks; }
  // This rank in its group, and how many that has.
  int rank(RankGroup group) const {
    return group == RankGroup::tensor ? world_.rank % layer_ranks_ : world_.rank / layer_ranks_;
  }
  int size(RankGroup group) const {
    return group == RankGroup::tensor ? layer_ranks_ : world_.size / layer_ranks_;
  }

  // Returns when all ranks are there. From then on the loss of a rank ends all: whoever waits for the others
  // gets a RunError that names the rank and the cause, and a process that does not wait ends some seconds
  // later by itself.
  void assemble();

  std::string share(const std::string& text);                // rank 0's, on every rank
  std::vector<std::string> gather(const std::string& text);  // every rank's, by rank
  bool any(bool flag);                                       // whether it is true on any rank
  // Every rank's data becomes their sum, 0 + rank 0's + rank 1's + ..., in f32: the same bits everywhere, and
  // those of one process that adds the same tensors to zeros in this order.
  void all_reduce(std::span<float> data) { all_reduce(data, data, RankGroup::data); }
  // Likewise of the ranks of the group, which all groups do at the same time; `to` may be `from`.
  void all_reduce(std::span<const float> from, std::span<float> to, RankGroup group);
  // `whole` is as many equal parts as there are ranks, and `part` becomes rank r's r-th part of what
  // all_reduce() would make of it.
  void reduce_scatter(std::span<const float> whole, std::span<float> part);
  // `whole` becomes the parts of all ranks, which are of equal size, in their order.
  void all_gather(std::span<const float> part, std::span<float> whole, RankGroup group = RankGroup::data);
  // Rank 0 sees the bytes of all ranks, as many of each: take(rank, first, bytes) those from byte `first` of
  // them on, a stretch at a time.
  using Take = std::function<void(int rank, size_t first, std::span<const std::byte> bytes)>;
  void collect(std::span<const std::byte> own, const Take& take);

  // Spent in the functions on numbers so far, waiting for slower ranks included.
  double seconds() const { return seconds_; }

  // This rank cannot go on, and the others should know why. Does not wait.
  void fail(std::string_view why) noexcept;
  // The end of a run that went well.
  void finish();
  // Why the run ends for all, as far as this rank has heard; "" while it goes on.
  std::string failure() const;

 private:
  struct Peer {  // of rank 0
    RankSocket socket;
    int process = 0;
    bool done = false;
  };

  void welcome_others();
  void join_rank_0();
  void open_board(int file);
  void meet();
  void put(std::span<std::byte> place, const std::string& text) const;
  std::string get(std::span<const std::byte> place) const;
  int member(RankGroup group, int i) const;  // the rank that is the i-th of this one's group
  void reduce(std::span<const float> from, std::span<float> to, RankGroup group);
  void exchange(std::span<const std::byte> own, const Take& take);

  void watch();
  bool watch_once();
  void hear(int peer);
  void note_failure(const std::string& why);
  [[noreturn]] void throw_failure() const;
  void end_late();

  const World world_;
  StartedRanks started_;
  RankSocket listener_, to_rank_0_;
  std::vector<Peer> peers_;  // rank 1 first
  std::unique_ptr<SharedBoard> board_;
  int layer_ranks_ = 1;
  int set_ = 0;  // of words, that any() uses next
  double seconds_ = 0;

  std::thread watcher_;
  int wake_ = -1;  // an eventfd: the watcher is to look at ending_
  std::atomic<bool> ending_{false};
  std::atomic<bool> all_done_{false};
  mutable std::mutex mutex_;
  std::string failure_;  // guarded
};

}  // namespace hydrac::runtime
