// Finds the best candidate by timing real steps. It moves to candidates that differ in one key: each is
// planned, its time is estimated, and promising ones are measured in alternation with the best one so far.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "tune/candidate.h"
#include "tune/cost_model.h"

namespace hydrac::tune {

enum class Objective { time, memory, energy };

// The plan's figures for a candidate; nothing runs.
struct Planned {
  int64_t bytes = 0;  // of tensor memory
  Work work;
  double threads = 1;   // of those that compute; a GPU has one
  std::string program;  // equal of candidates that are the same program; "" where that is not known
};

// A candidate's program, in memory and ready.
class Runner {
 public:
  virtual ~Runner() = default;
  struct Round {
    double seconds = 0;  // of a step, the median
    double joules = 0;   // of a step; 0 where they are not counted
  };
  virtual Round run(int64_t steps) = 0;
  // A step that is not timed: it captures graphs and loads kernels.
  virtual void warm_up() = 0;

  // A library call whose algorithm can be exchanged in the loaded program; the calls with most work come
  // first, with up to `most` alternatives each.
  struct Call {
    Algorithm algorithm;
    std::string now;
    std::vector<std::string> others;
  };
  virtual std::vector<Call> calls(int most) = 0;
  virtual void take(const Algorithm& algorithm, const std::string& words) = 0;
};

// The machine, as the search needs it.
class Workbench {
 public:
  virtual ~Workbench() = default;
  // nullopt where the candidate is impossible or does not fit the memory.
  virtual std::optional<Planned> plan(const Candidate& candidate) = 0;
  // nullptr where the machine has no room for it after all.
  virtual std::unique_ptr<Runner> open(const Candidate& candidate) = 0;
  // True if two programs of these sizes can be in memory at once.
  virtual bool both_fit(int64_t bytes, int64_t other_bytes) const = 0;
  // True if Runner::calls() are worth a part of the time.
  virtual bool has_algorithms() const = 0;
  virtual double now() const = 0;  // seconds
  virtual bool stopped() const = 0;
};

struct SearchOptions {
  Objective objective = Objective::time;
  Effort effort = Effort::normal;
  double seconds = 120;  // in which the last comparison begins
};

// A comparison of one candidate with the best one so far.
struct Comparison {
  Candidate candidate;
  double ratio = 1;  // of the objective: the candidate's by the best one's; the median over rounds
  double noise = 0;  // standard error of it
  bool taken = false;
  double seconds = 0;  // of the candidate's step, the median; 0: it was only planned
};

struct Found {
  Candidate best;
  Planned planned;
  Runner::Round round;            // of the best one, the median over its rounds
  Runner::Round defaults;         // as measured first
  double gain = 1;                // the objective by that of the defaults: the product of what was taken
  double spread = 0;              // of single rounds of the best one, a share
  double spread_of_defaults = 0;  // of neighbouring rounds of the defaults
  std::vector<Comparison> comparisons;
  int passed_over = 0;    // not measured: guessed to be slower by far
  int same = 0;           // not measured: the same program as another candidate's
  int undecided = 0;      // better or worse by less than the noise, which is more than a percent
  bool complete = false;  // everything was tried before the time was over
};

// A change is taken for more than this share, twice.
inline constexpr double kWorthIt = 0.01;
// By so many standard errors a comparison has to differ from 1.
inline constexpr double kCertain = 3;
// A machine whose rounds differ by more than this is too noisy to choose on.
inline constexpr double kTooNoisy = 0.05;
// If rounds differ by less than this, short rounds, and so many of them, suffice.
inline constexpr double kQuiet = 0.005;
inline constexpr int kQuietRounds = 3;

// `progress` is called after every comparison. A stopped Workbench ends the search with the results so far.
Found search(Workbench& bench, const std::vector<Knob>& knobs, const SearchOptions& options,
             const CostModel& model, const std::function<void(const Found&)>& progress);

}  // namespace hydrac::tune
