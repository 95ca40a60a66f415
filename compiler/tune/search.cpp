#include "tune/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "tune/contest.h"

namespace hydrac::tune {

namespace {

// Share of the time for keys. The rest is for the matmuls' algorithms, which are tried in the program that
// the keys gave.
constexpr double kTimeForKeys = 0.7;

class Search {
 public:
  Search(Workbench& bench, const std::vector<Knob>& knobs, const SearchOptions& options,
         const CostModel& model, const std::function<void(const Found&)>& progress)
      : bench_(bench),
        contest_(bench, options, model),
        knobs_(knobs),
        options_(options),
        progress_(progress),
        end_(bench.now() + options.seconds),
        end_of_keys_(bench.now() + options.seconds * (tries_algorithms() ? kTimeForKeys : 1)) {}

  Found run() {
    tried_.insert(best().values);
    is_new_program(contest_.found().planned);
    contest_.measure_defaults();
    if (contest_.found().round.seconds > 0) progress_(contest_.found());
    do {
      while (pass()) {
      }
    } while (!over(end_of_keys_) && try_together());
    bool complete = !is_cut_short_ && !over(end_of_keys_);
    if (tries_algorithms()) complete &= try_algorithms();
    contest_.measure_best();
    contest_.found().complete = complete;
    return contest_.found();
  }

 private:
  const Candidate& best() const { return contest_.found().best; }
  bool over(double end) const { return bench_.stopped() || bench_.now() >= end; }
  // So much earlier than that of keys that what was better by little can be compared together.
  double end_of_passes() const { return end_of_keys_ - (compared_ > 0 ? seconds_compared_ / compared_ : 0); }
  bool tries_algorithms() const { return measures() && bench_.has_algorithms(); }
  bool measures() const { return options_.objective != Objective::memory; }
  // Neighbours of the best candidate, most promising first; whether one of them was taken.
  bool pass() {
    is_cut_short_ = over(end_of_passes());
    if (is_cut_short_) return false;
    struct Step {
      std::string key, value;  // an empty value: back to the default
      double rank;
    };
    std::vector<Step> steps;
    const auto consider = [&](const std::string& key, const std::string& value) {
      const Candidate candidate = neighbour(key, value);
      if (tried_.contains(candidate.values)) return;
      if (const auto planned = bench_.plan(candidate)) steps.push_back({key, value, rank(*planned)});
    };
    for (const auto& [key, value] : best().values) consider(key, "");
    for (const Knob& knob : knobs_)
      for (const std::string& value : knob.values) consider(knob.key, value);
    std::ranges::stable_sort(steps, {}, &Step::rank);
    bool improved = false;
    for (const Step& step : steps) {
      is_cut_short_ = over(end_of_passes());
      if (is_cut_short_) return false;
      improved |= try_out(neighbour(step.key, step.value));
    }
    return improved;
  }

  Candidate neighbour(const std::string& key, const std::string& value) const {
    if (!value.empty()) return best().with(key, value);
    Candidate candidate = best();
    candidate.values.erase(key);
    return candidate;
  }

  // In percent of the best candidate's guess: what is less says nothing, and the order of the knobs counts.
  double rank(const Planned& planned) const {
    if (!measures()) return static_cast<double>(planned.bytes);
    return std::round(100 * contest_.guess(planned) / contest_.guess(contest_.found().planned));
  }

  bool try_out(const Candidate& candidate) {
    if (!tried_.insert(candidate.values).second) return false;
    const auto planned = bench_.plan(candidate);
    if (!planned) return false;
    if (!is_new_program(*planned)) {
      ++contest_.found().same;
      return false;
    }
    if (!measures()) return note(contest_.compare_plans(candidate, *planned));
    const double hope = contest_.pace().hope * contest_.guess(contest_.found().planned);
    if (contest_.guess(*planned) > hope) {
      ++contest_.found().passed_over;
      return false;
    }
    const double began = bench_.now();
    const Comparison comparison = contest_.compare(candidate, *planned);
    seconds_compared_ += bench_.now() - began;
    ++compared_;
    return note(comparison);
  }

  // A key may have no effect in combination with others: a candidate that gives an already measured program
  // is not measured again.
  bool is_new_program(const Planned& planned) {
    return planned.program.empty() || programs_.insert(planned.program).second;
  }

  // True if it was taken.
  bool note(const Comparison& comparison) {
    if (bench_.stopped() && !comparison.taken) return false;  // in the middle of it
    contest_.found().comparisons.push_back(comparison);
    progress_(contest_.found());
    return comparison.taken;
  }

  // Tries together the changes of the best candidate that were faster, but not by enough to be taken alone.
  // Returns whether they were taken.
  bool try_together() {
    Candidate candidate = best();
    std::map<std::string, double> ratios;  // the best one's of each key
    for (const Comparison& comparison : contest_.found().comparisons) {
      const auto change = only_change(best(), comparison.candidate);
      if (!change || comparison.ratio >= 1 - comparison.noise) continue;
      const auto [best, is_new] = ratios.try_emplace(change->first, comparison.ratio);
      if (!is_new && best->second <= comparison.ratio) continue;
      best->second = comparison.ratio;
      candidate.values[change->first] = change->second;
    }
    return ratios.size() > 1 && try_out(candidate);
  }

  // The key and value that `other` has in addition to `base`, if that is the only difference; going back to a
  // default does not count.
  static std::optional<std::pair<std::string, std::string>> only_change(const Candidate& base,
                                                                        const Candidate& other) {
    std::optional<std::pair<std::string, std::string>> change;
    for (const auto& [key, value] : other.values) {
      const auto found = base.values.find(key);
      if (found != base.values.end() && found->second == value) continue;
      if (change) return std::nullopt;
      change = {key, value};
    }
    return change && base.with(change->first, change->second) == other ? change : std::nullopt;
  }

  // Tries algorithms in the loaded best program. An algorithm that is fastest by itself may not be so while
  // other kernels run, or on a GPU at its power limit. A matmul is a small part of a step, so the faster
  // algorithms are collected and compared together. Returns whether all were tried.
  bool try_algorithms() {
    if (over(end_)) return false;
    const std::vector<Runner::Call> calls = contest_.calls();
    const double end = end_ - contest_.seconds_of_comparison();  // of all of them together
    Candidate candidate = best();
    bool all = true;
    for (const Runner::Call& call : calls) {
      for (const std::string& words : call.others) {
        all &= !over(end);
        if (all) choose_algorithm(candidate.with(key_of(call.algorithm), words), calls, candidate);
      }
    }
    if (candidate != best()) note(contest_.compare_algorithms(calls, candidate));
    return all;
  }

  // The candidate becomes the other one where that is faster.
  void choose_algorithm(const Candidate& other, const std::vector<Runner::Call>& calls,
                        Candidate& candidate) {
    const Comparison comparison = contest_.estimate(calls, candidate, other);
    if (comparison.ratio < 1 - comparison.noise) candidate = other;
    note(comparison);
  }

  Workbench& bench_;
  Contest contest_;
  const std::vector<Knob>& knobs_;
  const SearchOptions options_;
  const std::function<void(const Found&)>& progress_;
  const double end_, end_of_keys_;
  std::set<std::map<std::string, std::string>> tried_;  // values of candidates
  std::set<std::string> programs_;
  double seconds_compared_ = 0;
  int compared_ = 0;
  bool is_cut_short_ = false;  // the last pass, by the time
};

}  // namespace

Found search(Workbench& bench, const std::vector<Knob>& knobs, const SearchOptions& options,
             const CostModel& model, const std::function<void(const Found&)>& progress) {
  return Search(bench, knobs, options, model, progress).run();
}

}  // namespace hydrac::tune
