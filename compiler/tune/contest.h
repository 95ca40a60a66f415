// The best program so far and its challengers: alternating rounds of steps, and the rule for when a candidate
// is better.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tune/search.h"

namespace hydrac::tune {

// How much is measured: rounds of a set, seconds of a round, and by how much a candidate may be estimated
// slower than the best one and still be measured.
struct Pace {
  int rounds;
  double round_seconds;
  double hope;
  int algorithms;  // other ones that are tried of a matmul
};

class Contest {
 public:
  // The best program is that of the defaults, which can be planned. All of these must outlive this.
  Contest(Workbench& bench, const SearchOptions& options, const CostModel& model);

  Found& found() { return found_; }
  const Found& found() const { return found_; }
  const Pace& pace() const { return pace_; }
  // Two sets of rounds, of two programs that are open.
  double seconds_of_comparison() const;
  // Estimate of a candidate's step, in seconds.
  double guess(const Planned& planned) const;

  // Comes first: how fast the defaults are, how much of a difference is noise, and so the pace.
  void measure_defaults();
  // Comes last: the figure that is written down, of the best program by itself, as a run has the machine.
  void measure_best();

  // Measures two sets of rounds of the best program and of the candidate. A better candidate becomes the best
  // one.
  Comparison compare(const Candidate& candidate, const Planned& planned);
  // The same by the plan alone, for Objective::memory.
  Comparison compare_plans(const Candidate& candidate, const Planned& planned);

  // Algorithms that can be exchanged in the best program while it is open (Runner::calls).
  std::vector<Runner::Call> calls() { return best_runner().calls(pace_.algorithms); }
  // Three rounds of two candidates that differ from the best one in such algorithms alone. Takes none,
  // and leaves the program open as the first one has it.
  Comparison estimate(const std::vector<Runner::Call>& calls, const Candidate& one, const Candidate& other);
  // Like compare(), for a candidate that differs in such algorithms. Leaves the program open as the best
  // candidate has it.
  Comparison compare_algorithms(const std::vector<Runner::Call>& calls, const Candidate& candidate);

 private:
  struct Rounds {
    std::vector<Runner::Round> best, other;
    bool in_turns = true;
  };

  double cost(const Runner::Round& round) const;
  int64_t steps_a_round() const;
  Runner& best_runner();
  Rounds measure(std::unique_ptr<Runner>& other, const Candidate& candidate, bool together);
  Rounds remembered(Rounds rounds);
  Rounds exchange(const std::vector<Runner::Call>& calls, const Candidate& best, const Candidate& other,
                  int count);
  void set(const std::vector<Runner::Call>& calls, const Candidate& candidate);
  std::vector<double> ratios_of(const Rounds& rounds) const;
  double spread_before(const Rounds& rounds) const;
  double spread_within(const Rounds& rounds) const;
  bool is_hopeless(const Rounds& rounds) const;
  Comparison judge(const Candidate& candidate, const Planned& planned,
                   const std::function<Rounds()>& measure_set);
  Work scaled(const Planned& planned) const;

  Workbench& bench_;
  const SearchOptions options_;
  Pace pace_;
  CostModel model_;
  Found found_;
  std::unique_ptr<Runner> runner_;                               // of the best one; null: not in memory
  double seconds_ = 1;                                           // of its step
  double shortest_round_ = 0;                                    // what a round of one step takes of the time
  std::vector<Runner::Round> rounds_of_best_, rounds_of_other_;  // of the last set
};

}  // namespace hydrac::tune
