// Detection of ranks that are alive but make no progress. Rank 0 asks each rank for its pulse every second,
// and the rank's watching thread answers. A stopped rank does not answer; a hanging one answers that it is
// working while the others wait.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace hydrac::runtime {

struct Pulse {
  double waits = 0;         // seconds that it has waited for other ranks so far; 0: it works
  bool waits_long = false;  // far longer than ever before
  bool stops = false;       // a signal has asked it to stop

  std::string text() const;
  static std::optional<Pulse> parse(const std::string& text);
};

// True for a rank that has waited `seconds`, and at most `longest` before.
bool is_long_wait(double seconds, double longest);

struct SeenRank {
  Pulse pulse;         // its last one
  double silence = 0;  // seconds since it was asked, while it has not answered
  bool done = false;   // it has left
};

struct Trouble {
  std::vector<int> ranks;  // that the others wait for; empty: there is none
  bool is_silent = false;  // they do not answer; else they do, and work
  double seconds = 0;      // for which they have been silent, or waited for
};

// `ranks`: all of a run.
Trouble trouble_of(const std::vector<SeenRank>& ranks);

inline constexpr double kSilenceOfARank = 10;  // seconds: a watching thread answers also on a busy machine

}  // namespace hydrac::runtime
