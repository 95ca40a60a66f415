#include "tune/contest.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "runtime/error.h"
#include "tune/timed_steps.h"

namespace hydrac::tune {

namespace {

Pace pace_of(const SearchOptions& options) {
  Pace pace = options.effort == Effort::quick    ? Pace{3, 0.15, 1.3, 1}
              : options.effort == Effort::normal ? Pace{5, 0.3, 1.6, 2}
                                                 : Pace{9, 0.5, 3, 5};
  // Counters of energy tick tens of milliseconds apart.
  if (options.objective == Objective::energy) pace.round_seconds = std::max(1.0, pace.round_seconds);
  return pace;
}

// The spread of a normal distribution, from the median distance to the median: outliers do not count.
double spread_of(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return 1.4826 * median(std::move(distances));
}

double standard_error(const std::vector<double>& values) {
  return 1.2533 * spread_of(values) / std::sqrt(static_cast<double>(values.size()));
}

std::vector<double> seconds_of(const std::vector<Runner::Round>& rounds) {
  std::vector<double> seconds;
  for (const Runner::Round& round : rounds) seconds.push_back(round.seconds);
  return seconds;
}

// How much a round differs from the one before it, as a share. A slow drift, such as the clock of a GPU that
// warms up, does not count.
double spread_of_neighbours(const std::vector<double>& seconds) {
  std::vector<double> ratios;
  for (size_t i = 1; i < seconds.size(); ++i) ratios.push_back(seconds[i] / seconds[i - 1]);
  return ratios.empty() ? 0 : spread_of(ratios) / std::sqrt(2.0);
}

double share_of_spread(const std::vector<double>& seconds) {
  return spread_of(seconds) / median(seconds);
}

std::unique_ptr<Runner> opened(Workbench& bench, const Candidate& candidate) {
  std::unique_ptr<Runner> runner = bench.open(candidate);
  for (int i = 0; runner && i < 2; ++i) runner->warm_up();
  return runner;
}

}  // namespace

Contest::Contest(Workbench& bench, const SearchOptions& options, const CostModel& model)
    : bench_(bench), options_(options), pace_(pace_of(options)), model_(model) {
  found_.planned = bench_.plan({}).value();
}

double Contest::cost(const Runner::Round& round) const {
  return options_.objective == Objective::energy ? round.joules : round.seconds;
}

// A guess of a step's time. Threads share the work, but not the memory's bandwidth.
double Contest::guess(const Planned& planned) const {
  return model_.seconds(planned.work) * std::sqrt(found_.planned.threads / planned.threads);
}

int64_t Contest::steps_a_round() const {
  return std::clamp<int64_t>(static_cast<int64_t>(pace_.round_seconds / seconds_), 1, 200);
}

Runner& Contest::best_runner() {
  if (!runner_) {
    runner_ = opened(bench_, found_.best);
    if (!runner_)
      throw runtime::RunError("the program that was the best so far does not fit the machine any more");
    const double began = bench_.now();
    seconds_ = runner_->run(1).seconds;
    shortest_round_ = bench_.now() - began;
  }
  return *runner_;
}

double Contest::seconds_of_comparison() const {
  return 4 * pace_.rounds * std::max(pace_.round_seconds, shortest_round_);
}

// Rounds of the defaults alternating with themselves measure the noise. Long steps have fewer rounds.
void Contest::measure_defaults() {
  constexpr double kTimeForThem = 0.1;
  std::vector<double> seconds, joules;
  best_runner();
  const double end = bench_.now() + kTimeForThem * options_.seconds;
  const auto is_enough = [&](int i) {
    return i >= 2 * pace_.rounds || (i >= pace_.rounds && bench_.now() >= end);
  };
  for (int i = 0; !is_enough(i) && !bench_.stopped(); ++i) {
    const Runner::Round round = runner_->run(steps_a_round());
    seconds.push_back(round.seconds);
    joules.push_back(round.joules);
    rounds_of_best_.push_back(round);
    if (std::ssize(rounds_of_best_) > pace_.rounds) rounds_of_best_.erase(rounds_of_best_.begin());
    seconds_ = median(seconds);
  }
  if (seconds.empty()) return;
  found_.defaults = found_.round = {median(seconds), median(joules)};
  found_.spread = share_of_spread(seconds);
  found_.spread_of_defaults = spread_of_neighbours(seconds);
  if (found_.spread_of_defaults > kTooNoisy) pace_.rounds *= 2;
  // If rounds hardly differ, fewer and shorter ones suffice, so more candidates can be tried. Energy counters
  // are updated too seldom for that.
  if (found_.spread_of_defaults < kQuiet && options_.objective == Objective::time) {
    pace_.rounds = std::min(pace_.rounds, kQuietRounds);
    pace_.round_seconds /= 3;
  }
  model_.learn(found_.planned.work, found_.defaults.seconds);
}

namespace {

const std::string& algorithm_in(const Candidate& candidate, const Runner::Call& call) {
  const auto found = candidate.values.find(key_of(call.algorithm));
  return found == candidate.values.end() ? call.now : found->second;
}

}  // namespace

// The open program becomes that of a candidate which differs in algorithms alone.
void Contest::set(const std::vector<Runner::Call>& calls, const Candidate& candidate) {
  for (const Runner::Call& call : calls) best_runner().take(call.algorithm, algorithm_in(candidate, call));
}

// Rounds in turns, as measure() has them, of two candidates that differ in algorithms alone.
Contest::Rounds Contest::exchange(const std::vector<Runner::Call>& calls, const Candidate& best,
                                  const Candidate& other, int count) {
  set(calls, best);
  std::vector<Runner::Call> changed;
  std::ranges::copy_if(calls, std::back_inserter(changed), [&](const Runner::Call& call) {
    return algorithm_in(best, call) != algorithm_in(other, call);
  });
  const auto run = [&](const Candidate& candidate, std::vector<Runner::Round>& rounds) {
    set(changed, candidate);
    runner_->warm_up();
    rounds.push_back(runner_->run(steps_a_round()));
  };
  Rounds rounds;
  for (int i = 0; i < count && !bench_.stopped() && !is_hopeless(rounds); ++i) {
    if (i % 2 == 1) run(other, rounds.other);
    run(best, rounds.best);
    if (i % 2 == 0) run(other, rounds.other);
  }
  return rounds;
}

// One set of rounds. If both programs fit the memory they alternate, and each goes first every second time.
Contest::Rounds Contest::measure(std::unique_ptr<Runner>& other, const Candidate& candidate, bool together) {
  Rounds rounds;
  const auto run_best = [&] { rounds.best.push_back(best_runner().run(steps_a_round())); };
  const auto run_other = [&] {
    if (!other) {
      other = opened(bench_, candidate);
      if (!other) return;
    }
    rounds.other.push_back(other->run(steps_a_round()));
  };
  if (!together) {
    rounds.in_turns = false;
    // The first set reuses earlier rounds of the best program: few candidates get a second set, and opening a
    // program takes as long as measuring it.
    if (!other) rounds.best = rounds_of_best_;
    other.reset();
    for (int i = 0; std::ssize(rounds.best) < pace_.rounds && !bench_.stopped(); ++i) run_best();
    runner_.reset();
    for (int i = 0; i < pace_.rounds && !bench_.stopped() && !is_hopeless(rounds); ++i) run_other();
    return remembered(std::move(rounds));
  }
  for (int i = 0; i < pace_.rounds && !bench_.stopped(); ++i) {
    if (i % 2 == 1) run_other();
    run_best();
    if (i % 2 == 0) run_other();
    if (!other) return {};
    if (is_hopeless(rounds)) break;
  }
  return remembered(std::move(rounds));
}

Contest::Rounds Contest::remembered(Rounds rounds) {
  rounds_of_best_ = rounds.best;
  rounds_of_other_ = rounds.other;
  return rounds;
}

// How much rounds of the same program differ: in turns, what changes slowly changes both programs' alike.
double Contest::spread_before(const Rounds& rounds) const {
  return rounds.in_turns ? found_.spread_of_defaults : std::max(found_.spread_of_defaults, found_.spread);
}

double Contest::spread_within(const Rounds& rounds) const {
  const std::vector<double> seconds = seconds_of(rounds.best);
  return rounds.in_turns ? spread_of_neighbours(seconds) : share_of_spread(seconds);
}

// True if the rounds so far, two at least, show that the other program cannot be better by enough. The more
// rounds there are, the smaller is the allowance for noise.
bool Contest::is_hopeless(const Rounds& rounds) const {
  const std::vector<double> ratios = ratios_of(rounds);
  if (ratios.size() < 2) return false;
  const double doubt = 2 * kCertain * spread_before(rounds) / static_cast<double>(ratios.size());
  return *std::ranges::min_element(ratios) > 1 - kWorthIt + doubt;
}

// The other one's cost by the best one's, of the rounds that both have.
std::vector<double> Contest::ratios_of(const Rounds& rounds) const {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(rounds.best.size(), rounds.other.size()); ++i)
    ratios.push_back(cost(rounds.other[i]) / cost(rounds.best[i]));
  return ratios;
}

Comparison Contest::compare(const Candidate& candidate, const Planned& planned) {
  const bool together = bench_.both_fit(found_.planned.bytes, planned.bytes);
  std::unique_ptr<Runner> other;
  const Comparison comparison =
      judge(candidate, planned, [&] { return measure(other, candidate, together); });
  if (comparison.taken) {
    found_.planned = planned;
    runner_ = std::move(other);
    rounds_of_best_ = rounds_of_other_;
  }
  return comparison;
}

Comparison Contest::compare_plans(const Candidate& candidate, const Planned& planned) {
  const double ratio = static_cast<double>(planned.bytes) / static_cast<double>(found_.planned.bytes);
  const bool taken = ratio < 1 - kWorthIt;
  if (taken) {
    found_.best = candidate;
    found_.planned = planned;
    found_.gain *= ratio;
    runner_.reset();
  }
  return {candidate, ratio, 0, taken};
}

Comparison Contest::estimate(const std::vector<Runner::Call>& calls, const Candidate& one,
                             const Candidate& other) {
  constexpr int kRounds = 3;  // what is wrong about it shows when all is compared together
  const Rounds rounds = exchange(calls, one, other, kRounds);
  set(calls, one);
  const std::vector<double> ratios = ratios_of(rounds);
  if (ratios.empty()) return {other};
  return {other, median(ratios), standard_error(ratios), false, median(seconds_of(rounds.other))};
}

Comparison Contest::compare_algorithms(const std::vector<Runner::Call>& calls, const Candidate& candidate) {
  const Candidate before = found_.best;
  const Comparison comparison =
      judge(candidate, found_.planned, [&] { return exchange(calls, before, candidate, pace_.rounds); });
  set(calls, found_.best);
  return comparison;
}

// The verdict of two sets of rounds; the better candidate becomes the best one.
Comparison Contest::judge(const Candidate& candidate, const Planned& planned,
                          const std::function<Rounds()>& measure_set) {
  Comparison comparison{candidate};
  std::vector<double> ratios, seconds, joules;
  double spread = 0;  // of a round, as far as it does not show in both
  bool each_set_agrees = true;
  for (int set = 0; set < 2 && each_set_agrees && !bench_.stopped(); ++set) {
    const Rounds rounds = measure_set();
    const std::vector<double> of_set = ratios_of(rounds);
    for (size_t i = 0; i < of_set.size(); ++i) {
      seconds.push_back(rounds.other[i].seconds);
      joules.push_back(rounds.other[i].joules);
    }
    if (of_set.empty()) return comparison;
    spread = std::max({spread, spread_before(rounds), spread_within(rounds)});
    ratios.insert(ratios.end(), of_set.begin(), of_set.end());
    each_set_agrees = median(of_set) < 1 - kWorthIt;
  }
  if (ratios.empty()) return comparison;
  comparison.ratio = median(ratios);
  comparison.seconds = median(seconds);
  // Few rounds may agree by chance, so the noise is at least what the same program's rounds, at the start and
  // now, predict for so many rounds.
  const double expected = spread * std::sqrt(2.0 / static_cast<double>(ratios.size()));
  comparison.noise = std::max(standard_error(ratios), expected);
  const double gain = 1 - comparison.ratio;
  const double certain = std::max(kWorthIt, kCertain * comparison.noise);
  const bool had_all_rounds = std::ssize(ratios) >= pace_.rounds;
  if (had_all_rounds && certain > kWorthIt && std::abs(gain) <= certain) ++found_.undecided;
  model_.learn(scaled(planned), median(seconds));
  if (!each_set_agrees || gain <= certain) return comparison;
  comparison.taken = true;
  found_.best = candidate;
  found_.gain *= comparison.ratio;
  found_.round = {median(seconds), median(joules)};
  found_.spread = share_of_spread(seconds);
  seconds_ = found_.round.seconds;
  return comparison;
}

// So that the model's prices are those of the best candidate's number of threads.
Work Contest::scaled(const Planned& planned) const {
  const double share = std::sqrt(found_.planned.threads / planned.threads);
  return {planned.work.flop * share, planned.work.bytes * share, planned.work.calls * share};
}

void Contest::measure_best() {
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
  found_.spread = share_of_spread(seconds);
}

}  // namespace hydrac::tune
