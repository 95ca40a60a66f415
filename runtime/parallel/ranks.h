// The processes of one data-parallel run, its ranks: their rendezvous, sums over all of them, and a common
// end. Rank 0 leads: it has the console and the run's folder, and starts the others if no launcher did.
//
// Each rank has a socket to rank 0, by which either end notices that the other is gone, and memory that the
// ranks of its host share. With several hosts, their first ranks exchange what is written on one host and
// read on another. Every rank calls the members below in the same order; each returns when all have called
// it.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/parallel/collective.h"
#include "runtime/parallel/host_links.h"
#include "runtime/parallel/hosts.h"
#include "runtime/parallel/newcomers.h"
#include "runtime/parallel/owned_slots.h"
#include "runtime/parallel/pulse.h"
#include "runtime/parallel/rank_socket.h"
#include "runtime/parallel/shared_board.h"
#include "runtime/parallel/started_ranks.h"
#include "runtime/parallel/world.h"

namespace hydrac::runtime {

class Ranks {
 public:
  // Rank 0 listens; the others connect. `command`: this program's arguments, with which rank 0 starts the
  // others in assemble(); empty if a launcher started them. InputError, RunError.
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
  int rank(RankGroup group) const { return place_in(group, world_.rank); }
  int size(RankGroup group) const {
    return group == RankGroup::tensor ? layer_ranks_ : world_.size / layer_ranks_;
  }

  // Returns when all ranks are there. From then on the loss of a rank ends all of them. A rank that waits for
  // others gets an error with the lost rank's name and cause: an InputError if its input was the cause, else
  // a RunError. A process that does not wait ends by itself some seconds later, with the exit code of that
  // error.
  void assemble();

  // Once they are there: the hosts of a run that has several, that of rank 0 first; else none.
  const std::vector<Host>& hosts() const { return roster_.hosts; }
  // "rank 3", of several hosts "rank 3 on host node-1 (10.0.0.1)".
  std::string name(int rank) const;

  std::string share(const std::string& text);                // rank 0's, on every rank
  std::vector<std::string> gather(const std::string& text);  // every rank's, by rank
  bool any(bool flag);                                       // whether it is true on any rank
  // Carries out a collective on one tensor. Sums are those of all_reduce(); std::logic_error: another
  // reduction.
  void run(const Collective& collective, const SharedFloats& tensor);
  // Every rank's data becomes their sum, 0 + rank 0's + rank 1's + ..., in f32. The bits are the same on all
  // ranks, and equal those of one process that adds the same tensors to zeros in this order.
  void all_reduce(std::span<float> data) { all_reduce(data, data, RankGroup::data); }
  // Likewise of the ranks of the group, which all groups do at the same time; `to` may be `from`.
  void all_reduce(std::span<const float> from, std::span<float> to, RankGroup group);
  // reduce_scatter: `part` becomes this rank's slice of the sum of all ranks' `whole`, in the order of
  // all_reduce().
  void reduce_scatter(std::span<const float> whole, std::span<float> part, RankGroup group = RankGroup::data);
  // `whole` becomes the parts of all ranks, which are of equal size, in their order.
  void all_gather(std::span<const float> part, std::span<float> whole, RankGroup group = RankGroup::data);
  // `parts` has this rank's part of each of `slots` slots, all of one size. `whole` becomes the slots that
  // this rank owns (owned_slots()), each assembled from all ranks' parts in order, and zeros beyond the last
  // slot.
  void to_owners(std::span<const float> parts, std::span<float> whole, int64_t slots);
  // The reverse of to_owners(): `parts` becomes this rank's part of each slot.
  void from_owners(std::span<const float> whole, std::span<float> parts, int64_t slots);
  // Rank 0 receives the bytes of all ranks, the same number from each, a stretch at a time: take(rank, first,
  // bytes) gets those from byte `first` on.
  using Take = std::function<void(int rank, size_t first, std::span<const std::byte> bytes)>;
  void collect(std::span<const std::byte> own, const Take& take);

  // Spent in the functions on numbers so far, waiting for slower ranks included.
  double seconds() const { return seconds_; }

  // All ranks have found that their input cannot be used: InputError(why) on each, once all have called it.
  // If one rank threw it alone, the others would report that rank's end as the cause.
  [[noreturn]] void refuse_together(const std::string& why);
  // This rank cannot go on because of `error`, and the others should know. Does not wait.
  void fail(const std::exception& error) noexcept;
  // The end of a run that went well.
  void finish();
  // Why the run ends for all, as far as this rank has heard; "" while it goes on.
  std::string failure() const;
  // Rethrows the failure with the type that it had on the rank where it began. RunError(otherwise) if none is
  // reported within `seconds`.
  [[noreturn]] void throw_failure(const std::string& otherwise = "another rank failed",
                                  double seconds = kHearing);

 private:
  static constexpr double kHearing = 20;  // for what rank 0 says to come, also where machines do much else

  struct Failure {
    std::string why;        // "" while there is none
    bool is_input = false;  // an InputError
  };
  struct Peer {  // of rank 0
    RankSocket socket;
    Hello hello;
    SeenRank seen;
    bool is_asked = false;  // for its pulse
  };
  // While it lives this rank waits for others.
  struct Waiting {
    explicit Waiting(Ranks& ranks);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    Ranks& ranks_;
  };
  // The bytes that rank `to` reads of what rank `from` has written into the board.
  using Reads = std::function<std::span<std::byte>(int from, int to)>;

  // ranks.cpp: how they come together.
  void knock();
  Hello own_hello() const;
  void welcome_others();
  void require_progress(const std::vector<int>& missing, double waited);
  const RankSocket& door() const { return world_.host ? tcp_listener_ : listener_; }  // of rank 0
  void admit(RankSocket socket, const RankMessage& message);
  std::optional<Hello> recognize(const RankSocket& socket, const RankMessage& message);
  void note_stranger(const RankSocket& socket, const char* why);
  void join_rank_0();
  void open_board(int file);
  std::string local_meeting() const;

  // between_hosts.cpp: how the ranks of a host do, and how hosts do.
  void share_board();
  void give_board();
  int receive_board();
  [[noreturn]] void throw_what_is_heard(const std::string& otherwise);
  void link_hosts();
  std::vector<int> connect_to_hosts();
  bool take_link(Newcomers& newcomers, std::vector<int>& connections);

  bool leads_host() const { return !world_.host || world_.host->rank == 0; }
  const Host& own_host() const { return roster_.hosts[static_cast<size_t>(own_host_)]; }

  // collectives.cpp.
  int place_in(RankGroup group, int rank) const;
  int group_of(RankGroup group, int rank) const;  // the groups' number, from 0
  int member(RankGroup group, int i) const;       // the rank that is the i-th of this one's group
  void meet_here();                               // the ranks of this host
  void meet(const Reads& reads);                  // all ranks
  void meet_for_texts(const std::function<bool(int from)>& writes);
  void put(std::span<std::byte> place, const std::string& text) const;
  std::string get(std::span<const std::byte> place) const;
  std::span<std::byte> word_bytes(int rank) const;
  std::span<std::byte> text_bytes(int rank) const;
  HostLinks::Places crossing(const Host& from, const Host& to, const Reads& reads) const;
  void reduce(std::span<const float> from, std::span<float> to, RankGroup group);
  void exchange(std::span<const std::byte> own, const Take& take,
                const std::function<bool(int from, int to)>& reads);

  // watch.cpp: who is still there.
  void watch();
  bool watch_once(int file, int milliseconds);
  void hear(int peer);
  Failure heard() const;
  void note_failure(const Failure& failure);
  void tell_who_knocks(const Failure& failure);
  bool speaks_without_rank_0() const;
  void lose_rank_0(const std::string& how);
  void end_late();

  // pulse.cpp: who is there and does not go on.
  Pulse own_pulse() const;
  void take_pulses();
  void look_at_others(double passed);
  void look_at_rank_0(double passed);
  void mention(const Trouble& trouble);
  std::string names(const std::vector<int>& ranks) const;

  const World world_;
  StartedRanks started_;
  RankSocket listener_, tcp_listener_, to_rank_0_;
  std::vector<Peer> peers_;  // rank 1 first
  int strangers_ = 0;        // that were sent away
  Roster roster_;            // of several hosts
  int own_host_ = 0;
  std::unique_ptr<SharedBoard> board_;
  std::unique_ptr<HostLinks> links_;  // of the first rank of a host
  int layer_ranks_ = 1;
  int set_ = 0;  // of words, that is used next
  double seconds_ = 0;

  std::thread watcher_;
  int wake_ = -1;  // an eventfd: the watcher is to look at ending_
  std::atomic<bool> ending_{false};
  std::atomic<bool> all_done_{false};
  std::atomic<bool> knows_{false};  // this rank's work has got to an error, and is coming to its end
  std::atomic<bool> is_done_{false};
  std::atomic<double> waits_since_{0}, longest_wait_{0};

  // State of the watching thread.
  double looked_ = 0, stopping_seconds_ = 0, silence_of_rank_0_ = 0, next_mention_ = 0;
  std::vector<int> mentioned_;
  mutable std::mutex mutex_;
  Failure failure_;  // guarded
};

}  // namespace hydrac::runtime
