// The split into training and validation, and weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "prepare/mixture.h"

namespace hydrac::prepare {
namespace {

// `count` documents of 1 to 13 tokens.
std::vector<uint64_t> ends_of(size_t count) {
  std::vector<uint64_t> ends;
  uint64_t end = 0;
  for (size_t i = 0; i < count; ++i) ends.push_back(end += 1 + i * 7 % 13);
  return ends;
}

// How often each token is in `list`.
std::vector<int> uses(const std::vector<Stretch>& list, uint64_t tokens) {
  std::vector<int> counts(tokens);
  for (const Stretch& stretch : list) {
    for (uint64_t at = stretch.begin; at < stretch.end; ++at) ++counts[at];
  }
  return counts;
}

uint64_t tokens_of(const std::vector<Stretch>& list) {
  uint64_t sum = 0;
  for (const Stretch& stretch : list) sum += stretch.tokens();
  return sum;
}

TEST(Mixture, EveryTokenTrainsOrValidates) {
  const std::vector<uint64_t> ends = ends_of(500);
  for (const double fraction : {0.0, 0.01, 0.1, 0.5}) {
    for (const bool has_end : {false, true}) {
      const Mixture mixture = mix(ends, std::vector<uint32_t>(500), {{1.0}, fraction, has_end, 7});
      const std::vector<int> train = uses(mixture.train, ends.back()), val = uses(mixture.val, ends.back());
      for (size_t i = 0; i < train.size(); ++i) ASSERT_EQ(train[i] + val[i], 1) << i;
      const auto wanted = static_cast<uint64_t>(static_cast<double>(ends.back()) * fraction);
      EXPECT_LE(tokens_of(mixture.val), wanted);
      EXPECT_GE(tokens_of(mixture.val) + has_end, wanted);
      EXPECT_EQ(mixture.shares[0].train_tokens, tokens_of(mixture.train));
      EXPECT_EQ(mixture.shares[0].val_tokens, tokens_of(mixture.val));
      EXPECT_LE(std::ranges::count(mixture.train, true, &Stretch::add_end), has_end && fraction > 0);
    }
  }
}

TEST(Mixture, ASingleTextIsCutOnce) {
  const Mixture mixture = mix({1000}, {0}, {{1.0}, 0.1, true, 7});
  ASSERT_EQ(mixture.train.size(), 1u);
  ASSERT_EQ(mixture.val.size(), 1u);
  EXPECT_EQ(mixture.train[0].end, 900u);
  EXPECT_TRUE(mixture.train[0].add_end);
  EXPECT_EQ(mixture.val[0].begin, 900u);
  EXPECT_EQ(mixture.val[0].end, 1000u);
  EXPECT_FALSE(mixture.val[0].add_end);
}

TEST(Mixture, WeightsRepeatExactly) {
  const std::vector<uint64_t> ends = ends_of(600);
  std::vector<uint32_t> source_of(600);
  std::ranges::fill(source_of.begin() + 200, source_of.begin() + 400, 1);
  std::ranges::fill(source_of.begin() + 400, source_of.end(), 2);
  const Mixture mixture = mix(ends, source_of, {{1.0, 2.5, 0.25}, 0.0, true, 7});
  const uint64_t sizes[] = {ends[199], ends[399] - ends[199], ends[599] - ends[399]};
  EXPECT_EQ(mixture.shares[0].train_tokens, sizes[0]);
  EXPECT_EQ(mixture.shares[1].train_tokens, 2 * sizes[1] + sizes[1] / 2);
  EXPECT_EQ(mixture.shares[2].train_tokens, sizes[2] / 4);
  const std::vector<int> train = uses(mixture.train, ends.back());
  for (uint64_t at = 0; at < ends.back(); ++at) {
    const int times = train[at];
    if (at < ends[199])
      ASSERT_EQ(times, 1);
    else if (at < ends[399])
      ASSERT_TRUE(times == 2 || times == 3);
    else
      ASSERT_LE(times, 1);
  }
}

TEST(Mixture, TheSeedAloneDrawsTheOrder) {
  const std::vector<uint64_t> ends = ends_of(300);
  const std::vector<uint32_t> source_of(300);
  const auto begins = [&](uint64_t seed) {
    std::vector<uint64_t> list;
    for (const Stretch& stretch : mix(ends, source_of, {{2.0}, 0.1, true, seed}).train)
      list.push_back(stretch.begin);
    return list;
  };
  EXPECT_EQ(begins(1), begins(1));
  EXPECT_NE(begins(1), begins(2));
  EXPECT_FALSE(std::ranges::is_sorted(begins(1)));
  // The two copies are not in the same order one behind another.
  const std::vector<uint64_t> order = begins(1);
  std::vector<uint64_t> first(order.begin(), order.begin() + static_cast<ptrdiff_t>(order.size() / 2));
  std::ranges::sort(first);
  EXPECT_NE(std::ranges::adjacent_find(first), first.end());
}

}  // namespace
}  // namespace hydrac::prepare
