// The search on a machine that is made up: every candidate's time is known, with noise as much as a test
// wants.
#include "tune/search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "targets/target.h"

namespace hydrac::tune {
namespace {

class FakeBench : public Workbench {
 public:
  // Milliseconds of a step.
  std::function<double(const Candidate&)> ms;
  // Of a candidate's plan; nullopt: impossible.
  std::function<std::optional<int64_t>(const Candidate&)> bytes = [](const Candidate&) { return 1000; };
  std::function<std::string(const Candidate&)> program = [](const Candidate&) { return ""; };
  // Bytes of a step, from which its time is guessed.
  std::function<double(const Candidate&)> moved = [](const Candidate& c) {
    return c.values.contains("optimizations.recompute") ? 50 : 1;
  };
  double noise = 0;  // share of a round's time
  double stop_after = 1e9;
  bool room_for_two = true;
  // Of matmuls, by key, while any other one is "usual".
  std::vector<std::pair<std::string, std::vector<std::string>>> algorithms;

  std::optional<Planned> plan(const Candidate& candidate) override {
    const auto size = bytes(candidate);
    if (!size) return std::nullopt;
    Work work;
    work.bytes = moved(candidate);
    return Planned{*size, work, 1, program(candidate)};
  }
  std::unique_ptr<Runner> open(const Candidate& candidate) override {
    ++opened;
    EXPECT_TRUE(room_for_two || alive == 0) << "two programs where one fits";
    return std::make_unique<FakeRunner>(*this, candidate);
  }
  bool both_fit(int64_t, int64_t) const override { return room_for_two; }
  bool has_algorithms() const override { return !algorithms.empty(); }
  double now() const override { return clock; }
  bool stopped() const override { return clock >= stop_after; }

  int opened = 0, alive = 0;
  double clock = 0;

 private:
  struct FakeRunner : Runner {
    FakeRunner(FakeBench& on, Candidate of) : bench(on), candidate(std::move(of)) { ++bench.alive; }
    ~FakeRunner() override { --bench.alive; }
    Round run(int64_t steps) override {
      const double seconds = bench.ms(candidate) * 1e-3;
      bench.clock += static_cast<double>(steps) * seconds;
      bench.random = bench.random * 6364136223846793005u + 1442695040888963407u;
      const double uniform = static_cast<double>(bench.random >> 40) / double(1 << 24) - 0.5;
      return {seconds * (1 + 2 * bench.noise * uniform), 3 * seconds};
    }
    void warm_up() override { run(1); }
    std::vector<Call> calls(int most) override {
      std::vector<Call> list;
      for (const auto& [key, others] : bench.algorithms)
        list.push_back({{"cublaslt", key},
                        "usual",
                        {others.begin(), others.begin() + std::min<ptrdiff_t>(most, std::ssize(others))}});
      return list;
    }
    void take(const Algorithm& algorithm, const std::string& words) override {
      candidate.values[key_of(algorithm)] = words;
    }
    FakeBench& bench;
    Candidate candidate;
  };
  uint64_t random = 1;
};

const std::vector<Knob> kKnobs = {{kBlas, {"onednn", "openblas"}},
                                  {"optimizations.threads", {"2", "1"}},
                                  {"optimizations.loss", {"chunked", "fused_linear"}}};

Found found_by(FakeBench& bench, SearchOptions options = {}, const std::vector<Knob>& knobs = kKnobs) {
  return search(bench, knobs, options, CostModel(*targets::find("cpu"), spec::Precision::fp32),
                [](const Found&) {});
}

double faster_by(const Candidate& candidate, const char* key, const char* value, double factor) {
  const auto found = candidate.values.find(key);
  return found != candidate.values.end() && found->second == value ? factor : 1;
}

TEST(Search, FindsTheBestOfSeveralKeys) {
  FakeBench bench;
  bench.ms = [](const Candidate& c) {
    return 20 * faster_by(c, kBlas, "onednn", 0.9) * faster_by(c, "optimizations.threads", "2", 0.7) *
           faster_by(c, "optimizations.loss", "chunked", 1.2);
  };
  const Found found = found_by(bench);
  EXPECT_EQ(found.best.text(), "blas onednn, threads 2");
  EXPECT_NEAR(found.gain, 0.63, 1e-6);
  EXPECT_NEAR(found.round.seconds, 0.0126, 1e-6);
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.undecided, 0);
}

// Which key is good may depend on another one, that was taken later.
TEST(Search, GoesBackToADefault) {
  FakeBench bench;
  bench.ms = [](const Candidate& c) {
    const bool both = c.values.contains(kBlas) && c.values.contains("optimizations.threads");
    return 20 * faster_by(c, kBlas, "onednn", 0.95) * faster_by(c, "optimizations.threads", "2", 0.9) *
           (both ? 1.08 : 1);
  };
  EXPECT_EQ(found_by(bench).best.text(), "threads 2");
}

TEST(Search, TakesNothingForLessThanAPercent) {
  FakeBench bench;
  bench.ms = [](const Candidate& c) { return c.values.empty() ? 20 : 19.9; };
  EXPECT_EQ(found_by(bench).best, Candidate{});
}

TEST(Search, TakesWhatAddsUpToMoreThanAPercent) {
  FakeBench bench;
  bench.ms = [](const Candidate& c) {
    return 20 * faster_by(c, kBlas, "onednn", 0.995) * faster_by(c, "optimizations.threads", "2", 0.994) *
           faster_by(c, "optimizations.loss", "chunked", 0.998) *
           faster_by(c, "optimizations.loss", "fused_linear", 0.996);
  };
  const Found found = found_by(bench);
  EXPECT_EQ(found.best.text(), "blas onednn, loss fused_linear, threads 2");
  EXPECT_NEAR(found.gain, 0.995 * 0.994 * 0.996, 1e-6);
}

TEST(Search, DoesNotChooseOnNoise) {
  for (const double noise : {0.05, 0.3}) {
    FakeBench bench;
    bench.ms = [](const Candidate&) { return 20; };
    bench.noise = noise;
    const Found found = found_by(bench, {.seconds = 1e6});
    EXPECT_EQ(found.best, Candidate{}) << noise;
    EXPECT_GT(found.spread, noise / 10) << "and it says so";
    EXPECT_GT(found.undecided, 0);
  }
}

TEST(Search, SeesALargeDifferenceThroughNoise) {
  FakeBench bench;
  bench.ms = [](const Candidate& c) { return 20 * faster_by(c, "optimizations.threads", "2", 0.5); };
  bench.noise = 0.05;
  EXPECT_EQ(found_by(bench, {.seconds = 1e6}).best.values.at("optimizations.threads"), "2");
}

// As a GPU does that becomes warm: its clock falls while the first minute passes.
TEST(Search, SeesASmallDifferenceWhileTheMachineSlowsDown) {
  for (const double gain : {0.02, 0.0}) {
    FakeBench bench;
    bench.ms = [&](const Candidate& c) {
      const double slower = 1 + 0.05 * std::min(1.0, bench.clock / 60);
      return 20 * slower * faster_by(c, "optimizations.threads", "2", 1 - gain);
    };
    bench.noise = 0.002;
    EXPECT_EQ(found_by(bench, {.seconds = 60}).best.values.contains("optimizations.threads"), gain > 0);
  }
}

// Noise of a few percent takes the rounds that it takes; without any, a third of the time is enough.
TEST(Search, MeasuresLessWhereAMachineIsQuiet) {
  const auto time_of = [](double noise) {
    FakeBench bench;
    bench.ms = [](const Candidate&) { return 20; };
    bench.noise = noise;
    found_by(bench, {.seconds = 1e6});
    return bench.clock;
  };
  EXPECT_LT(time_of(0.001), 0.6 * time_of(0.02));
}

TEST(Search, MeasuresNothingThatIsImpossible) {
  FakeBench bench;
  bench.ms = [](const Candidate& c) { return c.values.contains("optimizations.loss") ? 1 : 20; };
  bench.bytes = [](const Candidate& c) -> std::optional<int64_t> {
    if (c.values.contains("optimizations.loss")) return std::nullopt;
    return 1000;
  };
  EXPECT_EQ(found_by(bench).best, Candidate{});
}

TEST(Search, BeginsWithWhatIsGuessedToBeFaster) {
  const std::vector<Knob> knobs = {{"optimizations.streams", {"1"}}, {"optimizations.loss", {"chunked"}}};
  const auto first_with = [&](double streams, double loss) {
    FakeBench bench;
    bench.ms = [](const Candidate&) { return 20; };
    bench.moved = [&](const Candidate& c) {
      return faster_by(c, "optimizations.streams", "1", streams) *
             faster_by(c, "optimizations.loss", "chunked", loss);
    };
    return found_by(bench, {}, knobs).comparisons.at(0).candidate.text();
  };
  EXPECT_EQ(first_with(1, 0.95), "loss chunked");
  EXPECT_EQ(first_with(1, 0.998), "streams 1") << "less than a percent says nothing: the knobs' order counts";
}

TEST(Search, MeasuresAProgramOnce) {
  FakeBench bench;
  bench.ms = [](const Candidate&) { return 20; };
  // A loss in parts of a small batch is one part.
  bench.program = [](const Candidate& c) {
    Candidate other = c;
    other.values.erase("optimizations.loss");
    return other.text();
  };
  const Found found = found_by(bench);
  EXPECT_EQ(found.same, 2);
  EXPECT_EQ(found.comparisons.size(), 4u);
  for (const Comparison& comparison : found.comparisons)
    EXPECT_FALSE(comparison.candidate.values.contains("optimizations.loss"));
}

// Where the time does not suffice for all, it does for what was better by little, together.
TEST(Search, LeavesTimeForWhatAddsUp) {
  FakeBench bench;
  bench.ms = [](const Candidate& c) {
    return 100 * faster_by(c, kBlas, "onednn", 0.993) * faster_by(c, "optimizations.threads", "2", 0.993);
  };
  std::vector<Knob> knobs = kKnobs;
  for (int i = 0; i < 40; ++i) knobs.push_back({"optimizations.none" + std::to_string(i), {"1"}});
  const Found found = found_by(bench, {.seconds = 40}, knobs);
  EXPECT_FALSE(found.complete);
  EXPECT_EQ(found.best.text(), "blas onednn, threads 2");
}

TEST(Search, PassesOverWhatCannotBeFast) {
  FakeBench bench;
  bench.ms = [](const Candidate& c) { return c.values.empty() ? 20 : 1000; };
  const Found found = found_by(bench, {}, {{"optimizations.recompute", {"block"}}});
  EXPECT_EQ(found.passed_over, 1);
  EXPECT_EQ(bench.opened, 1);
}

TEST(Search, TakesTurnsWhereOnlyOneProgramFits) {
  FakeBench bench;
  bench.room_for_two = false;
  bench.ms = [](const Candidate& c) { return 20 * faster_by(c, kBlas, "openblas", 0.8); };
  EXPECT_EQ(found_by(bench).best.text(), "blas openblas");
}

// Each candidate is opened once; the defaults once, and again for the figure at the end.
TEST(Search, OpensEachProgramOnceWhereOnlyOneFits) {
  FakeBench bench;
  bench.room_for_two = false;
  bench.ms = [](const Candidate& c) { return c.values.empty() ? 20 : 20.5; };
  EXPECT_EQ(found_by(bench).comparisons.size(), 6u);
  EXPECT_EQ(bench.opened, 8);
}

TEST(Search, EndsWhenTheTimeIsOver) {
  FakeBench bench;
  bench.ms = [](const Candidate&) { return 1000; };
  const Found found = found_by(bench, {.seconds = 20});
  EXPECT_FALSE(found.complete);
  EXPECT_LT(bench.clock, 60);
  EXPECT_GT(found.round.seconds, 0);
}

TEST(Search, KeepsWhatWasFoundWhenItIsStopped) {
  FakeBench bench;
  bench.ms = [](const Candidate& c) { return 200 * faster_by(c, kBlas, "onednn", 0.5); };
  const Found all = found_by(bench);
  FakeBench stopped = bench;
  stopped.clock = 0;
  stopped.stop_after = bench.clock * 0.7;
  const Found found = found_by(stopped);
  EXPECT_EQ(found.best, all.best);
  EXPECT_GT(found.round.seconds, 0);
  FakeBench at_once = bench;
  at_once.clock = at_once.stop_after = 0;
  EXPECT_EQ(found_by(at_once).round.seconds, 0) << "nothing was measured";
}

// Of matmuls that are a few percent of a step each: what is faster is taken together. One is faster only
// beside another one.
TEST(Search, ExchangesAlgorithmsInTheBestProgram) {
  FakeBench bench;
  bench.algorithms = {{"a", {"a1", "a2", "a3"}}, {"b", {"b1"}}};
  bench.ms = [](const Candidate& c) {
    const double a2 = faster_by(c, "algorithm cublaslt a", "a2", 0.992);
    return 20 * a2 * faster_by(c, "algorithm cublaslt b", "b1", a2 < 1 ? 0.994 : 1.2) *
           faster_by(c, "algorithm cublaslt a", "a1", 1.1) * faster_by(c, "algorithm cublaslt a", "a3", 0.5) *
           faster_by(c, kBlas, "openblas", 0.9);
  };
  const Found found = found_by(bench);
  EXPECT_EQ(found.best.text(), "blas openblas, other algorithms of 2 matmuls");
  EXPECT_EQ(found.best.values.at("algorithm cublaslt a"), "a2") << "two are tried of each";
  EXPECT_NEAR(found.round.seconds, 20e-3 * 0.9 * 0.992 * 0.994, 1e-6);
  EXPECT_NEAR(found.gain, 0.9 * 0.992 * 0.994, 1e-6);
  EXPECT_TRUE(found.best.keys().empty()) << "they are no keys of a spec";
  EXPECT_TRUE(found.complete);
}

TEST(Search, LeavesAlgorithmsThatAreNotFaster) {
  FakeBench bench;
  bench.algorithms = {{"a", {"a1", "a2"}}};
  bench.ms = [](const Candidate& c) { return 20 * faster_by(c, "algorithm cublaslt a", "a2", 1.01); };
  const Found found = found_by(bench);
  EXPECT_EQ(found.best, Candidate{});
  EXPECT_NEAR(found.round.seconds, 0.02, 1e-9) << "the program is open as the best one has it";
}

TEST(Search, LeavesTimeForAlgorithms) {
  FakeBench bench;
  bench.algorithms = {{"a", {"a1"}}};
  bench.ms = [](const Candidate& c) { return 1000 * faster_by(c, "algorithm cublaslt a", "a1", 0.9); };
  const Found found = found_by(bench, {.seconds = 60});
  EXPECT_FALSE(found.complete) << "not all keys were tried";
  EXPECT_EQ(found.best.text(), "another algorithm of a matmul");
}

TEST(Search, ForMemoryPlansAlone) {
  FakeBench bench;
  bench.ms = [](const Candidate&) { return 20; };
  bench.bytes = [](const Candidate& c) -> std::optional<int64_t> {
    return 1000 - 100 * int64_t(c.values.size());
  };
  const Found found = found_by(bench, {.objective = Objective::memory});
  EXPECT_EQ(found.best.values.size(), 3u);
  EXPECT_EQ(found.planned.bytes, 700);
}

TEST(CostModel, LearnsThePricesOfItsMeasurements) {
  CostModel model(*targets::find("h100"), spec::Precision::bf16);
  const auto truth = [](const Work& w) { return 3e-15 * w.flop + 1e-12 * w.bytes + 5e-6 * w.calls; };
  const Work works[] = {
      {1e13, 1e10, 500}, {2e13, 1e10, 500}, {1e13, 3e10, 500}, {1e13, 1e10, 4000}, {3e13, 2e10, 900}};
  model.learn(works[0], truth(works[0]));
  EXPECT_NEAR(model.seconds(works[0]) / truth(works[0]), 1, 0.01)
      << "the first one says how fast the machine is";
  for (int repeat = 0; repeat < 5; ++repeat)
    for (const Work& work : works) model.learn(work, truth(work));
  const Work other{1.5e13, 2.5e10, 2000};
  EXPECT_NEAR(model.seconds(other) / truth(other), 1, 0.05);
}

// The bus is slower than the GPU's memory by far, and that is known before anything was measured.
TEST(CostModel, KnowsThatTheHostIsFar) {
  const CostModel model(*targets::find("h100"), spec::Precision::bf16);
  const Work near{1e13, 1e10, 500}, far{1e13, 1e10, 500, 1e10};
  EXPECT_NEAR(model.seconds(far) - model.seconds(near), 1e10 / (0.7 * 64e9), 1e-6);
}

}  // namespace
}  // namespace hydrac::tune
