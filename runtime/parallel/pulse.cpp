#include "runtime/parallel/pulse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/log/monotonic.h"
#include "runtime/log/signal.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::runtime {

namespace {

// Seconds.
constexpr double kBetweenPulses = 1;
constexpr double kLastWait = 10;  // for a rank that works while others wait, once the run is to stop

}  // namespace

std::string Pulse::text() const {
  return fmt::format("{} {:d} {:d}", waits, waits_long, stops);
}

std::optional<Pulse> Pulse::parse(const std::string& text) {
  Pulse pulse;
  int is_long = 0, stops = 0;
  if (std::sscanf(text.c_str(), "%lf %d %d", &pulse.waits, &is_long, &stops) != 3) return std::nullopt;
  pulse.waits_long = is_long != 0;
  pulse.stops = stops != 0;
  return pulse;
}

// Ranks are as uneven as their batches and machines: what was usual is no reason to worry.
bool is_long_wait(double seconds, double longest) {
  return seconds > 30 + 2 * longest;
}

Trouble trouble_of(const std::vector<SeenRank>& ranks) {
  Trouble silent{.ranks = {}, .is_silent = true}, late;
  bool is_long = false;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const SeenRank& rank = ranks[i];
    if (rank.done) continue;
    if (rank.silence >= kSilenceOfARank) {
      silent.ranks.push_back(static_cast<int>(i));
      silent.seconds = std::max(silent.seconds, rank.silence);
    } else if (rank.pulse.waits == 0) {
      late.ranks.push_back(static_cast<int>(i));
    }
    is_long |= rank.pulse.waits_long;
    late.seconds = std::max(late.seconds, rank.pulse.waits);
  }
  if (!silent.ranks.empty()) return silent;
  return is_long ? late : Trouble();
}

Ranks::Waiting::Waiting(Ranks& ranks) : ranks_(ranks) {
  ranks_.waits_since_ = monotonic_seconds();
}

Ranks::Waiting::~Waiting() {
  const double waited = monotonic_seconds() - ranks_.waits_since_;
  if (waited > ranks_.longest_wait_) ranks_.longest_wait_ = waited;
  ranks_.waits_since_ = 0;
}

Pulse Ranks::own_pulse() const {
  Pulse pulse;
  if (const double since = waits_since_; since > 0) pulse.waits = monotonic_seconds() - since;
  pulse.waits_long = is_long_wait(pulse.waits, longest_wait_);
  pulse.stops = stop_requested();
  return pulse;
}

// Seconds in which this process was stopped itself do not count: it heard nothing then.
void Ranks::take_pulses() {
  const double now = monotonic_seconds(), passed = std::min(now - looked_, 2 * kBetweenPulses);
  if (passed < kBetweenPulses) return;
  looked_ = now;
  leads() ? look_at_others(passed) : look_at_rank_0(passed);
}

void Ranks::look_at_others(double passed) {
  std::vector<SeenRank> all = {{.pulse = own_pulse()}};
  for (Peer& peer : peers_) {
    if (peer.is_asked)
      peer.seen.silence += passed;
    else if (!peer.seen.done)
      peer.is_asked = peer.socket.send(RankMessage::Kind::pulse);
    all.push_back(peer.seen);
  }
  const Trouble trouble = trouble_of(all);
  mention(trouble);
  const bool stops = std::ranges::any_of(all, [](const SeenRank& rank) { return rank.pulse.stops; });
  stopping_seconds_ = stops ? stopping_seconds_ + passed : 0;
  if (!stops || trouble.ranks.empty()) return;
  // Rank 0 may be saving.
  if (!trouble.is_silent && (stopping_seconds_ < kLastWait || trouble.ranks.front() == 0)) return;
  for (const int rank : trouble.ranks) started_.kill(rank);
  note_failure({fmt::format("the run was asked to stop, and {} {}", names(trouble.ranks),
                            trouble.is_silent ? "does not answer" : "lets the others wait")});
}

void Ranks::look_at_rank_0(double passed) {
  if (is_done_) return;
  silence_of_rank_0_ += passed;
  if (silence_of_rank_0_ < kSilenceOfARank) return mention({});
  if (speaks_without_rank_0()) mention({{0}, true, silence_of_rank_0_});
  if (stop_requested()) lose_rank_0("does not answer, and the run was asked to stop");
}

std::string Ranks::names(const std::vector<int>& ranks) const {
  std::vector<std::string> words;
  for (const int rank : ranks) {
    const int process = rank == world_.rank ? ::getpid()
                        : leads()           ? peers_[static_cast<size_t>(rank) - 1].hello.process
                                            : 0;
    words.push_back(process == 0 ? name(rank) : fmt::format("{} (process {})", name(rank), process));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// When it begins, and each time that it has lasted twice as long.
void Ranks::mention(const Trouble& trouble) {
  if (trouble.ranks != mentioned_) next_mention_ = 0;
  mentioned_ = trouble.ranks;
  if (trouble.ranks.empty() || trouble.seconds < next_mention_) return;
  next_mention_ = 2 * trouble.seconds;
  const std::string who = names(trouble.ranks);
  const std::string what =
      trouble.is_silent
          ? fmt::format("{} has not answered for {:.0f} s: it is stopped, or its machine stands still", who,
                        trouble.seconds)
          : fmt::format("the others have waited {:.0f} s for {}: it is slow, or hangs", trouble.seconds, who);
  ::dprintf(world_.errors, "note: %s; a signal to stop (SIGTERM) ends the run without it\n", what.c_str());
}

}  // namespace hydrac::runtime
