// Noticing lost ranks: a thread of each rank reads its sockets, and the end of one rank ends all.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <stdexcept>

#include "runtime/error.h"
#include "runtime/exit_codes.h"
#include "runtime/log/monotonic.h"
#include "runtime/parallel/newcomers.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::runtime {

namespace {

// Seconds for a process to end by itself when another rank is lost.
constexpr double kGrace = 3;           // where its work does not know that
constexpr double kGraceOfAnEnd = 15;   // where it does, and has only to clean up
constexpr double kGraceOfAChild = 10;  // for a rank that was started here, whose socket is closed

constexpr int kMillisecondsBetweenPulses = 1000;

RankMessage::Kind kind_of(bool is_input) {
  return is_input ? RankMessage::Kind::refused : RankMessage::Kind::failed;
}

// True for a message of a rank that cannot go on.
bool says_why(const RankMessage& message) {
  return message.kind == RankMessage::Kind::failed || message.kind == RankMessage::Kind::refused;
}

// The cause, or that the connection ended without a message.
std::string cause_of(const RankMessage& end) {
  if (end.text.empty()) return "ended without a word, killed perhaps";
  return fmt::format("could not be reached any more ({}): its host is down, or the network", end.text);
}

}  // namespace

void Ranks::watch() {
  while (!ending_ && !all_done_ && failure().empty()) {
    watch_once(wake_, kMillisecondsBetweenPulses);
    take_pulses();
  }
  if (!failure().empty()) end_late();
}

// Handles messages from other ranks for so many milliseconds. Returns early, with true, when `file` becomes
// readable.
bool Ranks::watch_once(int file, int milliseconds) {
  std::vector<pollfd> files = {{file, POLLIN, 0}};
  if (leads()) {
    for (const Peer& peer : peers_) files.push_back({peer.seen.done ? -1 : peer.socket.file(), POLLIN, 0});
  } else {
    files.push_back({to_rank_0_.file(), POLLIN, 0});
  }
  if (::poll(files.data(), files.size(), milliseconds) < 0) {
    if (errno != EINTR)
      note_failure({fmt::format("rank {} cannot watch the others: errno {}", rank(), errno)});
    return false;
  }
  for (size_t i = 1; i < files.size(); ++i)
    if (files[i].revents != 0) hear(static_cast<int>(i) - 1);
  return files[0].revents != 0;
}

void Ranks::hear(int peer) {
  if (!leads()) {
    const RankMessage message = to_rank_0_.receive();
    if (message.kind == RankMessage::Kind::pulse) {
      silence_of_rank_0_ = 0;
      to_rank_0_.send(RankMessage::Kind::pulse, own_pulse().text());
    } else if (message.kind == RankMessage::Kind::done) {
      all_done_ = true;
    } else if (says_why(message)) {
      note_failure({message.text, message.kind == RankMessage::Kind::refused});
    } else {
      lose_rank_0(cause_of(message));
    }
    return;
  }
  Peer& other = peers_[static_cast<size_t>(peer)];
  const RankMessage message = other.socket.receive();
  const std::string who = fmt::format("{} (process {})", name(peer + 1), other.hello.process);
  if (message.kind == RankMessage::Kind::pulse) {
    other.is_asked = false;
    other.seen.pulse = Pulse::parse(message.text).value_or(Pulse());
    other.seen.silence = 0;
  } else if (message.kind == RankMessage::Kind::done) {
    other.seen.done = true;
    all_done_ = std::ranges::all_of(peers_, [](const Peer& one) { return one.seen.done; });
  } else if (says_why(message)) {
    note_failure({fmt::format("{}: {}", who, message.text), message.kind == RankMessage::Kind::refused});
  } else {
    const std::string why = started_.why(peer + 1, kGraceOfAChild);
    note_failure({fmt::format("{} {}; the other ranks end too", who, why.empty() ? cause_of(message) : why)});
  }
}

bool Ranks::speaks_without_rank_0() const {
  return world_.host ? leads_host() : rank() == 1;
}

// Rank 0 usually reports failures; when it is gone, another rank does.
void Ranks::lose_rank_0(const std::string& how) {
  note_failure({fmt::format("{} {}; the other ranks end too", name(0), how)});
  if (speaks_without_rank_0()) ::dprintf(world_.errors, "hydrac: the run failed: %s\n", failure().c_str());
}

// The first one counts: what follows is its consequence.
void Ranks::note_failure(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.why.empty()) return;
    failure_ = failure;
  }
  for (const Peer& peer : peers_)
    if (peer.socket.file() >= 0) peer.socket.send(kind_of(failure.is_input), failure.why);
  if (board_) board_->fail();
}

Ranks::Failure Ranks::heard() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::string Ranks::failure() const {
  return heard().why;
}

// The watcher may hear why a little later than the board knows that.
void Ranks::throw_failure(const std::string& otherwise, double seconds) {
  const double began = monotonic_seconds();
  while (failure().empty() && monotonic_seconds() - began < seconds) ::usleep(2'000);
  knows_ = true;
  const Failure failure = heard();
  if (failure.is_input) throw InputError(failure.why);
  throw RunError(failure.why.empty() ? otherwise : failure.why);
}

// Ends the process late: a rank that computes or writes a checkpoint does not come to a barrier for a while.
// Its files are complete or absent.
void Ranks::end_late() {
  const double began = monotonic_seconds();
  while (!ending_ && monotonic_seconds() - began < (knows_ ? kGraceOfAnEnd : kGrace)) ::usleep(10'000);
  if (ending_) return;
  const Failure failure = heard();
  // Ranks other than 0 write to their log, once they have one.
  ::dprintf(leads() ? world_.errors : STDERR_FILENO, "hydrac: %s: %s\n",
            failure.is_input ? "error" : "the run failed", failure.why.c_str());
  ::_exit(failure.is_input ? kExitBadInput : kExitRunFailed);
}

void Ranks::fail(const std::exception& error) noexcept {
  knows_ = true;
  if (!failure().empty()) return;
  Failure failure{error.what(), dynamic_cast<const InputError*>(&error) != nullptr};
  if (leads()) {
    failure.why = fmt::format("{}: {}", name(0), failure.why);
    note_failure(failure);
    return tell_who_knocks(failure);
  }
  to_rank_0_.send(kind_of(failure.is_input), failure.why);
  if (board_) board_->fail();
}

// Tells ranks that wait for rank 0 before a run begins.
void Ranks::tell_who_knocks(const Failure& failure) {
  constexpr int kMostKnocks = 4 * kMostRanks;  // strangers may go on and on
  try {
    Newcomers newcomers(door());
    pollfd knocks{newcomers.file(), POLLIN, 0};
    for (int i = 0; i < kMostKnocks; ++i) {
      if (::poll(&knocks, 1, 0) <= 0) break;
      const auto arrival = newcomers.next();
      if (arrival && recognize(arrival->socket, arrival->message))
        arrival->socket.send(kind_of(failure.is_input), failure.why);
    }
  } catch (const RunError&) {  // the door is closed: nobody waits
  }
}

void Ranks::refuse_together(const std::string& why) {
  try {
    any(false);
  } catch (const std::runtime_error&) {  // one that came first has ended
  }
  throw InputError(why);
}

void Ranks::finish() {
  any(false);  // all are there
  is_done_ = true;
  if (!leads()) to_rank_0_.send(RankMessage::Kind::done);
  watcher_.join();
  if (!failure().empty()) throw_failure();
  for (const Peer& peer : peers_) peer.socket.send(RankMessage::Kind::done);
}

}  // namespace hydrac::runtime
