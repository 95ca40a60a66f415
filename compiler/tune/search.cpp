#include "tune/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "runtime/error.h"
#include "tune/timed_steps.h"

namespace hydrac::tune {

namespace {

// How much is measured: rounds of a set, seconds of a round, and how much slower than the best one a
// candidate may be guessed to be and is measured all the same.
struct Pace {
  int rounds;
  double round_seconds;
  double hope;
  int algorithms;  // other ones that are tried of a matmul
};

Pace pace_of(const SearchOptions& options) {
  Pace pace = options.effort == Effort::quick    ? Pace{3, 0.15, 1.3, 1}
              : options.effort == Effort::normal ? Pace{5, 0.3, 1.6, 2}
                                                 : Pace{9, 0.5, 3, 5};
  // Counters of energy tick tens of milliseconds apart.
  if (options.objective == Objective::energy) pace.round_seconds = std::max(1.0, pace.round_seconds);
  return pace;
}

// Of a normal distribution, from the median distance to the median: outliers do not count.
double spread_of(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return 1.4826 * median(std::move(distances));
}

double standard_error(const std::vector<double>& values) {
  return 1.2533 * spread_of(values) / std::sqrt(static_cast<double>(values.size()));
}

// Of the time, where matmuls' algorithms are tried after the keys: those of the program that the keys made.
constexpr double kTimeForKeys = 0.7;

class Search {
 public:
  Search(Workbench& bench, const std::vector<Knob>& knobs, const SearchOptions& options,
         const std::function<void(const Found&)>& progress)
      : bench_(bench),
        knobs_(knobs),
        options_(options),
        pace_(pace_of(options)),
        progress_(progress),
        end_(bench.now() + options.seconds),
        end_of_keys_(bench.now() + options.seconds * (tries_algorithms() ? kTimeForKeys : 1)) {}

  Found run(CostModel model) {
    model_.emplace(std::move(model));
    found_.planned = bench_.plan({}).value();
    tried_.insert(found_.best.values);
    measure_defaults();
    while (!over(end_of_keys_) && pass()) {
    }
    found_.complete = !over(end_of_keys_);
    if (tries_algorithms()) found_.complete &= try_algorithms();
    measure_best();
    return std::move(found_);
  }

 private:
  struct Rounds {
    std::vector<Runner::Round> best, other;
  };

  bool over(double end) const { return bench_.stopped() || bench_.now() >= end; }
  bool tries_algorithms() const { return measures() && bench_.has_algorithms(); }
  bool measures() const { return options_.objective != Objective::memory; }
  double cost(const Runner::Round& round) const {
    return options_.objective == Objective::energy ? round.joules : round.seconds;
  }

  // A guess of a step's time. Threads share the work, but not the memory's bandwidth.
  double guess(const Planned& planned) const {
    return model_->seconds(planned.work) * std::sqrt(found_.planned.threads / planned.threads);
  }

  int64_t steps_a_round() const {
    return std::clamp<int64_t>(static_cast<int64_t>(pace_.round_seconds / seconds_), 1, 200);
  }

  Runner& best_runner() {
    if (!runner_) {
      runner_ = bench_.open(found_.best);
      if (!runner_)
        throw runtime::RunError("the program that was the best so far does not fit the machine any more");
      seconds_ = runner_->run(2).seconds;  // warm-up
    }
    return *runner_;
  }

  // Rounds of the defaults in turns with themselves say how much of a difference is noise.
  void measure_defaults() {
    std::vector<double> seconds, joules, ratios;
    best_runner();
    for (int i = 0; i < 2 * pace_.rounds && !bench_.stopped(); ++i) {
      const Runner::Round a = runner_->run(steps_a_round());
      seconds.push_back(a.seconds);
      joules.push_back(a.joules);
      seconds_ = median(seconds);
      if (i > 0) ratios.push_back(seconds[static_cast<size_t>(i)] / seconds[static_cast<size_t>(i) - 1]);
    }
    if (seconds.empty()) return;
    found_.defaults = found_.round = {median(seconds), median(joules)};
    found_.spread = found_.spread_of_defaults = spread_of(seconds) / median(seconds);
    found_.noise = ratios.empty() ? 0 : standard_error(ratios);
    if (found_.spread > kTooNoisy) pace_.rounds *= 2;
    // Where rounds hardly differ, shorter ones say as much, and more candidates have their turn. Energy is
    // counted too seldom for that.
    if (found_.spread < kQuiet && options_.objective == Objective::time) pace_.round_seconds /= 3;
    model_->learn(found_.planned.work, found_.defaults.seconds);
    progress_(found_);
  }

  // Neighbours of the best candidate, most promising first; whether one of them was taken.
  bool pass() {
    struct Step {
      std::string key, value;  // an empty value: back to the default
      double guess;
    };
    std::vector<Step> steps;
    const auto consider = [&](const std::string& key, const std::string& value) {
      const Candidate candidate = neighbour(key, value);
      if (tried_.contains(candidate.values)) return;
      if (const auto planned = bench_.plan(candidate)) steps.push_back({key, value, promise(*planned)});
    };
    for (const auto& [key, value] : found_.best.values) consider(key, "");
    for (const Knob& knob : knobs_)
      for (const std::string& value : knob.values) consider(knob.key, value);
    std::ranges::stable_sort(steps, {}, &Step::guess);
    bool improved = false;
    for (const Step& step : steps) {
      if (over(end_of_keys_)) return false;
      improved |= try_out(neighbour(step.key, step.value));
    }
    return improved;
  }

  Candidate neighbour(const std::string& key, const std::string& value) const {
    if (!value.empty()) return found_.best.with(key, value);
    Candidate candidate = found_.best;
    candidate.values.erase(key);
    return candidate;
  }

  double promise(const Planned& planned) const {
    return measures() ? guess(planned) : static_cast<double>(planned.bytes);
  }

  bool try_out(const Candidate& candidate) {
    if (!tried_.insert(candidate.values).second) return false;
    const auto planned = bench_.plan(candidate);
    if (!planned) return false;
    if (!measures()) return take_if_smaller(candidate, *planned);
    if (guess(*planned) > pace_.hope * guess(found_.planned)) {
      ++found_.passed_over;
      return false;
    }
    const bool together = bench_.both_fit(found_.planned.bytes, planned->bytes);
    std::unique_ptr<Runner> other;
    const Comparison comparison =
        compare(candidate, *planned, [&] { return measure(other, candidate, together); });
    if (comparison.taken) {
      found_.planned = *planned;
      runner_ = std::move(other);
    }
    return note(comparison);
  }

  // Whether it was taken.
  bool note(const Comparison& comparison) {
    if (bench_.stopped() && !comparison.taken) return false;  // in the middle of it
    found_.comparisons.push_back(comparison);
    progress_(found_);
    return comparison.taken;
  }

  // In the program that is the best one, where it lies: an algorithm may be the fastest one by itself, and
  // not beside others, or on a GPU that its power limits. Whether all were tried.
  bool try_algorithms() {
    if (over(end_)) return false;
    for (Runner::Call& call : best_runner().calls(pace_.algorithms)) {
      for (const std::string& words : call.others) {
        if (over(end_)) return false;
        const Candidate candidate = found_.best.with(key_of(call.algorithm), words);
        const bool taken = note(compare(candidate, found_.planned, [&] { return exchange(call, words); }));
        if (taken) call.now = words;
        best_runner().take(call.algorithm, call.now);
      }
    }
    return true;
  }

  // One set of rounds in turns, as measure() has them.
  Rounds exchange(const Runner::Call& call, const std::string& words) {
    const auto run = [&](const std::string& algorithm, std::vector<Runner::Round>& rounds) {
      runner_->take(call.algorithm, algorithm);
      runner_->run(1);  // its first step captures a graph, and may load a kernel
      rounds.push_back(runner_->run(steps_a_round()));
    };
    Rounds rounds;
    for (int i = 0; i < pace_.rounds && !bench_.stopped() && !is_slower(rounds); ++i) {
      if (i % 2 == 1) run(words, rounds.other);
      run(call.now, rounds.best);
      if (i % 2 == 0) run(words, rounds.other);
    }
    return rounds;
  }

  bool take_if_smaller(const Candidate& candidate, const Planned& planned) {
    const double ratio = static_cast<double>(planned.bytes) / static_cast<double>(found_.planned.bytes);
    const bool taken = ratio < 1 - kWorthIt;
    found_.comparisons.push_back({candidate, ratio, 0, taken});
    if (taken) {
      found_.best = candidate;
      found_.planned = planned;
      found_.gain *= ratio;
      runner_.reset();
    }
    progress_(found_);
    return taken;
  }

  // One set of rounds. Where both programs fit the memory they take turns, and each begins every second time.
  Rounds measure(std::unique_ptr<Runner>& other, const Candidate& candidate, bool together) {
    Rounds rounds;
    const auto run_best = [&] { rounds.best.push_back(best_runner().run(steps_a_round())); };
    const auto run_other = [&] {
      if (!other) {
        other = bench_.open(candidate);
        if (!other) return;
        other->run(2);
      }
      rounds.other.push_back(other->run(steps_a_round()));
    };
    if (!together) {
      other.reset();
      for (int i = 0; i < pace_.rounds && !bench_.stopped(); ++i) run_best();
      runner_.reset();
      for (int i = 0; i < pace_.rounds && !bench_.stopped(); ++i) run_other();
      return rounds;
    }
    for (int i = 0; i < pace_.rounds && !bench_.stopped(); ++i) {
      if (i % 2 == 1) run_other();
      run_best();
      if (i % 2 == 0) run_other();
      if (!other) return {};
      if (is_slower(rounds)) break;
    }
    return rounds;
  }

  // Two rounds that are far slower need no third one, nor do three that are slower by more than the noise.
  bool is_slower(const Rounds& rounds) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(rounds.best.size(), rounds.other.size()); ++i)
      ratios.push_back(ratio(rounds, i));
    if (ratios.size() < 2) return false;
    const double least = *std::ranges::min_element(ratios);
    return least > 1 + std::max(0.1, 3 * found_.spread_of_defaults) ||
           (ratios.size() > 2 && least > 1 + std::max(0.02, found_.spread_of_defaults));
  }

  double ratio(const Rounds& rounds, size_t i) const { return cost(rounds.other[i]) / cost(rounds.best[i]); }

  // Two sets of rounds of the best program and of the candidate; where the candidate is better, it becomes
  // the best one.
  Comparison compare(const Candidate& candidate, const Planned& planned,
                     const std::function<Rounds()>& measure_set) {
    Comparison comparison{candidate};
    std::vector<double> ratios, seconds, joules, of_best;
    bool each_set_agrees = true;
    for (int set = 0; set < 2 && each_set_agrees && !bench_.stopped(); ++set) {
      const Rounds rounds = measure_set();
      std::vector<double> of_set;
      for (size_t i = 0; i < std::min(rounds.best.size(), rounds.other.size()); ++i) {
        of_set.push_back(ratio(rounds, i));
        seconds.push_back(rounds.other[i].seconds);
        of_best.push_back(rounds.best[i].seconds);
        joules.push_back(rounds.other[i].joules);
      }
      if (of_set.empty()) return comparison;
      ratios.insert(ratios.end(), of_set.begin(), of_set.end());
      each_set_agrees = median(of_set) < 1 - kWorthIt;
    }
    comparison.ratio = median(ratios);
    comparison.seconds = median(seconds);
    // Few rounds may agree by chance: how much the same program's rounds differ, at the start and now, says
    // what that is worth.
    const double spread = std::max(found_.spread_of_defaults, spread_of(of_best) / median(of_best));
    const double expected = spread * std::sqrt(2.0 / static_cast<double>(ratios.size()));
    comparison.noise = std::max(standard_error(ratios), expected);
    const double gain = 1 - comparison.ratio;
    const double certain = std::max(kWorthIt, kCertain * comparison.noise);
    if (certain > kWorthIt && std::abs(gain) <= certain) ++found_.undecided;
    model_->learn(scaled(planned), median(seconds));
    if (!each_set_agrees || gain <= certain) return comparison;
    comparison.taken = true;
    found_.best = candidate;
    found_.gain *= comparison.ratio;
    found_.round = {median(seconds), median(joules)};
    found_.spread = spread_of(seconds) / median(seconds);
    seconds_ = found_.round.seconds;
    return comparison;
  }

  // So that the model's prices are those of the best candidate's number of threads.
  Work scaled(const Planned& planned) const {
    const double share = std::sqrt(found_.planned.threads / planned.threads);
    return {planned.work.flop * share, planned.work.bytes * share, planned.work.calls * share};
  }

  // The figure that is written down: by itself, as a run has the machine.
  void measure_best() {
    if (bench_.stopped()) return;
    std::vector<double> seconds, joules;
    best_runner();
    for (int i = 0; i < pace_.rounds && !bench_.stopped(); ++i) {
      const Runner::Round round = runner_->run(steps_a_round());
      seconds.push_back(round.seconds);
      joules.push_back(round.joules);
    }
    if (seconds.empty()) return;
    found_.round = {median(seconds), median(joules)};
    found_.spread = spread_of(seconds) / median(seconds);
  }

  Workbench& bench_;
  const std::vector<Knob>& knobs_;
  const SearchOptions options_;
  Pace pace_;
  const std::function<void(const Found&)>& progress_;
  const double end_, end_of_keys_;
  std::optional<CostModel> model_;
  Found found_;
  std::unique_ptr<Runner> runner_;  // of the best one; null: not in memory
  double seconds_ = 1;              // of its step
  std::set<std::map<std::string, std::string>> tried_;
};

}  // namespace

Found search(Workbench& bench, const std::vector<Knob>& knobs, const SearchOptions& options,
             const CostModel& model, const std::function<void(const Found&)>& progress) {
  return Search(bench, knobs, options, progress).run(model);
}

}  // namespace hydrac::tune
