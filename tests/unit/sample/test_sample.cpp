#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/sample/sample.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::message_of;

using Logits = std::vector<float>;

std::map<int32_t, int> drawn(const Logits& logits, const SampleOptions& options, int draws = 20000) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sample_token(logits, options, static_cast<uint64_t>(i))];
  return counts;
}

std::set<int32_t> ids(const std::map<int32_t, int>& counts) {
  std::set<int32_t> ids;
  for (const auto& [id, count] : counts) ids.insert(id);
  return ids;
}

// Of the logits of these probabilities, in per cent.
Logits logits_of(std::initializer_list<double> percents) {
  Logits logits;
  for (const double percent : percents) logits.push_back(static_cast<float>(std::log(percent / 100)));
  return logits;
}

TEST(SampleUniform, IsTheDocumentedFormula) {
  // Computed from the formula with Python's integers.
  EXPECT_EQ(sample_uniform(0, 0), 0.8833108082136426);
  EXPECT_EQ(sample_uniform(42, 7), 0.15289334222649975);
  EXPECT_EQ(sample_uniform(UINT64_MAX, UINT64_MAX), 0.2968726164944935);
}

TEST(SampleUniform, IsUniformOverPositionsAndOverSeeds) {
  for (const bool over_seeds : {false, true}) {
    std::vector<int> bins(16);
    for (uint64_t i = 0; i < 160'000; ++i) {
      const double u = over_seeds ? sample_uniform(i, 5) : sample_uniform(5, i);
      ASSERT_TRUE(u >= 0 && u < 1);
      ++bins[static_cast<size_t>(u * 16)];
    }
    for (const int count : bins) EXPECT_NEAR(count, 10'000, 500);  // five standard deviations
  }
}

TEST(SampleToken, GreedyTakesTheMostLikelyAndTheFirstOfEqualOnes) {
  EXPECT_EQ(sample_token(Logits{1, 3, 2}, {.temperature = 0}, 0), 1);
  EXPECT_EQ(sample_token(Logits{1, 3, 3, -1, 3}, {.temperature = 0}, 9), 1);
  EXPECT_EQ(sample_token(Logits{-INFINITY, -1e30F}, {.temperature = 0}, 0), 1);
}

TEST(SampleToken, FrequenciesFollowTheProbabilities) {
  const auto counts = drawn(logits_of({50, 30, 15, 5}), {.seed = 1});
  EXPECT_NEAR(counts.at(0), 10000, 360);  // five standard deviations
  EXPECT_NEAR(counts.at(1), 6000, 330);
  EXPECT_NEAR(counts.at(2), 3000, 260);
  EXPECT_NEAR(counts.at(3), 1000, 160);
}

TEST(SampleToken, TemperatureSharpensAndFlattens) {
  // At 0.5 the probabilities are squared: 0.8^2 / (0.8^2 + 0.2^2).
  EXPECT_NEAR(drawn(logits_of({80, 20}), {.temperature = 0.5}).at(0), 20000 * 16.0 / 17, 170);
  // At 2 their roots: 2 : 1.
  EXPECT_NEAR(drawn(logits_of({80, 20}), {.temperature = 2}).at(0), 20000 * 2.0 / 3, 340);
  EXPECT_EQ(ids(drawn(Logits{1, 1.01F, 0}, {.temperature = 1e-300}, 100)), (std::set<int32_t>{1}));
}

TEST(SampleToken, TopKKeepsExactlyKAndPrefersLowerIdsAmongEquals) {
  EXPECT_EQ(ids(drawn(logits_of({10, 40, 20, 30}), {.top_k = 2})), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(ids(drawn(Logits{0, 1, 1, 1, 0}, {.top_k = 2})), (std::set<int32_t>{1, 2}));
  EXPECT_EQ(ids(drawn(Logits{0, 0, 0}, {.top_k = 99})), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(ids(drawn(Logits{3, 3, 3}, {.top_k = 1})), (std::set<int32_t>{0}));
}

TEST(SampleToken, TopPKeepsTheFewestThatReachIt) {
  const Logits logits = logits_of({5, 50, 15, 30});
  EXPECT_EQ(ids(drawn(logits, {.top_p = 0.4})), (std::set<int32_t>{1}));
  EXPECT_EQ(ids(drawn(logits, {.top_p = 0.6})), (std::set<int32_t>{1, 3})) << "the one that crosses it is in";
  EXPECT_EQ(ids(drawn(logits, {.top_p = 0.9})), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(ids(drawn(logits, {.top_p = 0.99})), (std::set<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(ids(drawn(logits, {.top_p = 1e-9})), (std::set<int32_t>{1}));
  EXPECT_EQ(ids(drawn(Logits{0, 0, 0, 0}, {.top_p = 0.5})), (std::set<int32_t>{0, 1}))
      << "lower ids among equals";
}

TEST(SampleToken, TopPIsTakenOfWhatTemperatureAndTopKLeave) {
  const Logits logits = logits_of({40, 30, 20, 10});
  // Of the first two, 40/70 = 57% is enough for a half.
  EXPECT_EQ(ids(drawn(logits, {.top_k = 2, .top_p = 0.5})), (std::set<int32_t>{0}));
  EXPECT_EQ(ids(drawn(logits, {.top_p = 0.5})), (std::set<int32_t>{0, 1}));
  // At 0.5: 16/30, 9/30, 4/30, 1/30.
  EXPECT_EQ(ids(drawn(logits, {.temperature = 0.5, .top_p = 0.5})), (std::set<int32_t>{0}));
}

TEST(SampleToken, MinusInfinityRulesATokenOut) {
  EXPECT_EQ(ids(drawn(Logits{-INFINITY, 0, -INFINITY, 0}, {})), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(ids(drawn(Logits{-INFINITY, 0, -INFINITY}, {.top_k = 3, .top_p = 0.999})),
            (std::set<int32_t>{1}));
}

TEST(SampleToken, SeedAndPositionDecideAndNothingElse) {
  Logits logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 37 % 101) / 20;
  const auto text = [&](const SampleOptions& options) {
    std::vector<int32_t> tokens;
    for (uint64_t position = 0; position < 50; ++position)
      tokens.push_back(sample_token(logits, options, position));
    return tokens;
  };
  for (const SampleOptions& base :
       {SampleOptions{}, SampleOptions{.temperature = 0.8, .top_k = 40, .top_p = 0.95}}) {
    SampleOptions other = base;
    other.seed = 1;
    EXPECT_EQ(text(base), text(base));
    EXPECT_NE(text(base), text(other));
  }
}

TEST(SampleToken, LogitsThatNoTokenCanBeChosenFrom) {
  const auto choosing = [](const Logits& logits) {
    return message_of<RunError>([&] { sample_token(logits, {}, 0); });
  };
  EXPECT_EQ(choosing({}), "cannot choose a token: there are no logits");
  EXPECT_EQ(choosing({0, NAN}),
            "cannot choose a token: the logit of token 1 is NaN; the model's parameters are damaged or its "
            "training diverged");
  EXPECT_EQ(choosing({INFINITY}),
            "cannot choose a token: the logit of token 0 is infinite; the model's parameters are damaged or "
            "its training diverged");
  EXPECT_EQ(choosing({-INFINITY, -INFINITY}), "cannot choose a token: every logit is -infinity");
}

TEST(SampleOptionsTest, OutOfRangeIsNamed) {
  const auto checking = [](const SampleOptions& options) {
    return message_of<InputError>([&] { sample_token(Logits{0}, options, 0); });
  };
  EXPECT_EQ(checking({.temperature = -1}), "temperature is -1; it must be 0 (the most likely token) or more");
  EXPECT_EQ(checking({.temperature = NAN}),
            "temperature is nan; it must be 0 (the most likely token) or more");
  EXPECT_EQ(checking({.temperature = INFINITY}),
            "temperature is inf; it must be 0 (the most likely token) or more");
  EXPECT_EQ(checking({.top_k = -1}), "top_k is -1; it must be 0 (all tokens) or more");
  EXPECT_EQ(checking({.top_p = 0}), "top_p is 0; it must be above 0 and at most 1 (all tokens)");
  EXPECT_EQ(checking({.top_p = 1.5}), "top_p is 1.5; it must be above 0 and at most 1 (all tokens)");
  EXPECT_EQ(checking({.top_p = NAN}), "top_p is nan; it must be above 0 and at most 1 (all tokens)");
}

TEST(SampleToken, MinPTakesWhatIsLikelyBesideTheLikeliest) {
  const Logits logits = logits_of({50, 26, 24});
  EXPECT_EQ(ids(drawn(logits, {.min_p = 0.5})), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(ids(drawn(logits, {.min_p = 0.9})), (std::set<int32_t>{0}));
  EXPECT_EQ(ids(drawn(logits, {.min_p = 0.4})), (std::set<int32_t>{0, 1, 2}));
  // Of the probabilities that temperature makes: 0.26 / 0.5 becomes its square.
  EXPECT_EQ(ids(drawn(logits, {.temperature = 0.5, .min_p = 0.4})), (std::set<int32_t>{0}));
}

TEST(SampleToken, RepetitionIsPenalizedOnceATokenAndBeforeTemperature) {
  const SampleOptions options{.temperature = 0, .repetition_penalty = 2};
  const std::vector<int32_t> text = {1, 1, 700};  // one that the logits do not have
  EXPECT_EQ(sample_token(Logits{3, 5, -1}, options, 0, text), 0) << "5 becomes 2.5";
  EXPECT_EQ(sample_token(Logits{2, 5, -1}, options, 0, text), 1) << "and not 1.25";
  EXPECT_EQ(sample_token(Logits{-3, -2, -9}, options, 0, text), 0) << "-2 becomes -4";
  EXPECT_EQ(sample_token(Logits{3, 5, -1}, {.temperature = 0}, 0, text), 1);
}

TEST(SampleToken, MinPAndPenaltyOutOfRangeAreErrors) {
  EXPECT_EQ(message_of<InputError>([] { sample_token(Logits{1}, {.min_p = 1}, 0); }),
            "min_p is 1; it must be 0 (all tokens) or more and below 1");
  EXPECT_EQ(message_of<InputError>([] { sample_token(Logits{1}, {.repetition_penalty = 0}, 0); }),
            "repetition_penalty is 0; it must be above 0, and 1 is none");
}

// What a GPU hands over of a row.
class Top {
 public:
  Top(const Logits& logits, size_t count, double temperature) {
    std::vector<int32_t> all(logits.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    std::ranges::stable_sort(all, [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    const double largest = logits[static_cast<size_t>(all[0])];
    for (const float logit : logits) sum_ += std::exp((logit - largest) / temperature);
    for (size_t i = 0; i < count; ++i) {
      ids_.push_back(i < all.size() ? all[i] : -1);
      values_.push_back(i < all.size() ? logits[static_cast<size_t>(all[i])] : -INFINITY);
    }
  }
  TopLogits logits() const { return {values_, ids_, sum_}; }

 private:
  std::vector<float> values_;
  std::vector<int32_t> ids_;
  double sum_ = 0;
};

TEST(SampleFromTop, DrawsWhatTheWholeRowDraws) {
  Logits logits;
  for (uint64_t i = 0; i < 300; ++i) logits.push_back(static_cast<float>(8 * sample_uniform(1, i)));
  const SampleOptions all[] = {{.temperature = 0},
                               {.temperature = 0.7, .top_k = 20},
                               {.top_k = 64, .top_p = 0.5},
                               {.temperature = 0.5, .top_p = 0.4},
                               {.temperature = 0.8, .min_p = 0.3},
                               {.top_k = 30, .top_p = 0.9, .min_p = 0.2}};
  for (const SampleOptions& options : all) {
    const Top top(logits, 64, options.temperature > 0 ? options.temperature : 1);
    for (uint64_t position = 0; position < 200; ++position) {
      const auto found = sample_token(top.logits(), options, position);
      ASSERT_TRUE(found);
      EXPECT_EQ(*found, sample_token(logits, options, position));
    }
  }
  const Top whole(Logits{3, 1, 2}, 64, 1);
  EXPECT_EQ(sample_token(whole.logits(), {.top_p = 0.99}, 3),
            sample_token(Logits{3, 1, 2}, {.top_p = 0.99}, 3));
}

TEST(SampleFromTop, ATemperatureAloneTakesWhatWasDrawnFromTheWholeRow) {
  const Top top(Logits(300, 1.0f), 64, 1);
  TopLogits drawn = top.logits();
  drawn.drawn = 250;
  EXPECT_EQ(sample_token(drawn, {.temperature = 1}, 0), 250);
  EXPECT_NE(sample_token(drawn, {.temperature = 1, .top_k = 3}, 0), 250);
  drawn.sum = NAN;
  EXPECT_FALSE(sample_token(drawn, {.temperature = 1}, 0)) << "the row says which logit is no number";
}

TEST(SampleFromTop, SaysNothingWhereTheRestDecides) {
  const Logits flat(300, 1.0f);
  const Top top(flat, 64, 1);
  EXPECT_FALSE(sample_token(top.logits(), {.temperature = 1}, 0)) << "nobody drew one of all";
  EXPECT_FALSE(sample_token(top.logits(), {.top_p = 0.5}, 0)) << "64 of 300 are less than half";
  EXPECT_TRUE(sample_token(top.logits(), {.top_p = 0.2}, 0));
  EXPECT_FALSE(sample_token(top.logits(), {.min_p = 0.5}, 0)) << "the 65th is as likely";
  EXPECT_FALSE(sample_token(top.logits(), {.top_k = 65}, 0));
  EXPECT_FALSE(sample_token(top.logits(), {.temperature = 0, .repetition_penalty = 2}, 0));
  TopLogits damaged = top.logits();
  damaged.sum = NAN;
  EXPECT_FALSE(sample_token(damaged, {.temperature = 0}, 0)) << "the row says which token it is";
}

}  // namespace
}  // namespace hydrac::runtime
