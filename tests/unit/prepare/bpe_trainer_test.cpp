// The merges that are learned: against a trainer that counts everything anew for each merge.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <random>

#include "prepare/bpe_trainer.h"

namespace hydrac::prepare {
namespace {

using Counts = std::map<std::string, int64_t>;

WordCounts counted(const Counts& words) {
  WordCounts counts;
  for (const auto& [word, count] : words) counts.add(word, count);
  return counts;
}

// "lo w" for each merge.
std::vector<std::string> merges_of(const LearnedMerges& learned) {
  std::vector<std::string> list;
  for (const auto& [left, right] : learned.merges)
    list.push_back(learned.tokens[static_cast<size_t>(left)] + " " +
                   learned.tokens[static_cast<size_t>(right)]);
  return list;
}

// The definition.
std::vector<std::string> slowly(const Counts& words, size_t num_tokens) {
  const LearnedMerges bytes = learn_merges({}, 256);
  std::vector<std::string> tokens = bytes.tokens, merges;
  std::map<std::string, int> ids;
  for (size_t id = 0; id < tokens.size(); ++id) ids[tokens[id]] = static_cast<int>(id);
  std::vector<std::pair<std::vector<int>, int64_t>> rows;
  for (const auto& [word, count] : words) {
    rows.push_back({{}, count});
    for (const char c : word) rows.back().first.push_back(ids.at(std::string(1, c)));
  }
  while (tokens.size() < num_tokens) {
    std::map<std::pair<int, int>, int64_t> pairs;
    for (const auto& [row, count] : rows) {
      for (size_t i = 1; i < row.size(); ++i) pairs[{row[i - 1], row[i]}] += count;
    }
    std::pair<int, int> best;
    int64_t most = 1;
    for (const auto& [pair, count] : pairs) {
      if (count > most) std::tie(best, most) = std::tie(pair, count);
    }
    if (most < 2) break;
    const auto& [left, right] = best;
    merges.push_back(tokens[static_cast<size_t>(left)] + " " + tokens[static_cast<size_t>(right)]);
    const std::string joined = tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
    const auto [known, is_new] = ids.emplace(joined, static_cast<int>(tokens.size()));
    if (is_new) tokens.push_back(joined);
    for (auto& [row, count] : rows) {
      std::vector<int> out;
      for (size_t i = 0; i < row.size(); ++i) {
        const bool is_pair = i + 1 < row.size() && row[i] == left && row[i + 1] == right;
        out.push_back(is_pair ? known->second : row[i]);
        i += is_pair;
      }
      row = out;
    }
  }
  return merges;
}

TEST(BpeTrainer, JoinsTheMostFrequentPairFirst) {
  // The example of Sennrich et al.: e s and s t both occur 9 times, and e comes before s.
  const LearnedMerges learned =
      learn_merges(counted({{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}}), 256 + 5);
  EXPECT_EQ(merges_of(learned), (std::vector<std::string>{"e s", "es t", "l o", "lo w", "e w"}));
  ASSERT_EQ(learned.tokens.size(), 261u);
  EXPECT_EQ(learned.tokens[0], "!");
  EXPECT_EQ(learned.tokens[188], std::string(1, '\0'));
  EXPECT_EQ(learned.tokens[257], "est");
}

TEST(BpeTrainer, EndsWhereNoPairOccursTwice) {
  EXPECT_EQ(merges_of(learn_merges(counted({{"abc", 1}, {"abd", 1}, {"xyz", 1}}), 1000)),
            (std::vector<std::string>{"a b"}));
  EXPECT_TRUE(learn_merges(counted({{"a", 100}, {"b", 7}}), 1000).merges.empty());
}

TEST(BpeTrainer, RunsAreJoinedFromTheLeft) {
  const Counts words = {{"aaaaaaa", 3}, {"aab", 2}, {"baaa", 2}};
  EXPECT_EQ(merges_of(learn_merges(counted(words), 300)), slowly(words, 300));
}

TEST(BpeTrainer, LearnsWhatCountingAnewForEachMergeLearns) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Counts words;
    const unsigned letters = 1 + random() % 4, most = 1 + random() % 30;
    for (int i = 0; i < 30; ++i) {
      std::string word;
      for (unsigned left = 1 + random() % most; left > 0; --left)
        word += static_cast<char>('a' + random() % letters);
      words[word] += 1 + random() % 3;
    }
    const size_t tokens = 256 + random() % 60;
    ASSERT_EQ(merges_of(learn_merges(counted(words), static_cast<int64_t>(tokens))), slowly(words, tokens))
        << "round " << round;
  }
}

TEST(BpeTrainer, AllBytesAreLetters) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  const LearnedMerges learned = learn_merges(counted({{every, 2}}), 256 + 255);
  EXPECT_EQ(learned.tokens.size(), 511u);
}

TEST(WordCounts, AddUp) {
  WordCounts one, other;
  for (int i = 0; i < 20000; ++i) one.add(fmt::format("w{}", i % 9000));
  other.add("w1", 5);
  other.add("", 2);
  one.add(other);
  std::map<std::string, int64_t> all;
  one.for_each([&](std::string_view word, int64_t count) { all.emplace(word, count); });
  EXPECT_EQ(one.size(), 9001u);
  EXPECT_EQ(all.size(), 9001u);
  EXPECT_EQ(all.at("w1"), 8);
  EXPECT_EQ(all.at("w8999"), 2);
  EXPECT_EQ(all.at(""), 2);
}

}  // namespace
}  // namespace hydrac::prepare
