// Philox against the vectors that Random123 publishes, and the roles that hydrac gives its words.
#include "hydrac/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "cpu/random_row.h"

namespace hydrac {
namespace {

TEST(Random, PhiloxGivesThePublishedAnswers) {
  const Philox2x32 zeros = philox2x32(0, 0, 0);
  EXPECT_EQ(zeros.x, 0xff1dae59u);
  EXPECT_EQ(zeros.y, 0x6cd10df2u);
  const Philox2x32 ones = philox2x32(0xffffffffu, 0xffffffffu, 0xffffffffu);
  EXPECT_EQ(ones.x, 0x2c3f628bu);
  EXPECT_EQ(ones.y, 0xab4fd7adu);
  const Philox2x32 pi = philox2x32(0x243f6a88u, 0x85a308d3u, 0x13198a2eu);
  EXPECT_EQ(pi.x, 0xdd7ce038u);
  EXPECT_EQ(pi.y, 0xf62a4c12u);
}

TEST(Random, FourNeighboursHaveTheHalvesOfOneRunsWords) {
  const std::uint64_t group = 0x123456789ABCDEF0u;
  const Philox2x32 words = philox2x32(0x9ABCDEF0u, 0x12345678u, 5);
  EXPECT_EQ(random_16_bits(5, 4 * group), words.x & 0xFFFFu);
  EXPECT_EQ(random_16_bits(5, 4 * group + 1), words.x >> 16);
  EXPECT_EQ(random_16_bits(5, 4 * group + 2), words.y & 0xFFFFu);
  EXPECT_EQ(random_16_bits(5, 4 * group + 3), words.y >> 16);
}

TEST(Random, ScoresWhoseQueriesAndKeysAreEightApartShareARun) {
  for (int tokens : {16, 40, 256}) {
    for (int head : {0, 3}) {
      for (auto [query, key] : {std::pair(0, 0), std::pair(3, 7), std::pair(7, 16), std::pair(17, 2)}) {
        const std::uint64_t index = score_index(head, tokens, query, key);
        EXPECT_EQ(index % 4, 0u);
        EXPECT_EQ(score_index(head, tokens, query, key + 8), index + 1);
        EXPECT_EQ(score_index(head, tokens, query + 8, key), index + 2);
        EXPECT_EQ(score_index(head, tokens, query + 8, key + 8), index + 3);
      }
    }
  }
}

TEST(Random, EveryScoreHasAnIndexOfItsOwn) {
  std::set<std::uint64_t> indices;
  for (int head : {0, 1, 1000}) {
    for (int query = 0; query < 37; ++query) {
      for (int key = 0; key < 37; ++key) indices.insert(score_index(head, 37, query, key));
    }
  }
  EXPECT_EQ(indices.size(), 3u * 37 * 37);
}

TEST(Random, RowsAreTheRunsOfTheirCounters) {
  for (std::uint32_t first : {0u, 0xFFFFFFF0u, 0x9ABCDEF0u}) {
    for (std::uint32_t step : {1u, 1000u, 0x30000000u}) {
      std::uint32_t words[2][16];
      cpu::philox_row(first, step, 0x12345678u, 77, words);
      for (std::uint32_t i = 0; i < 16; ++i) {
        const Philox2x32 run = philox2x32(first + i * step, 0x12345678u, 77);
        EXPECT_EQ(words[0][i], run.x) << first << ' ' << i;
        EXPECT_EQ(words[1][i], run.y) << first << ' ' << i;
      }
    }
  }
}

TEST(Random, KeyTakesStepAndSiteAsCounterAndSeedAsKey) {
  EXPECT_EQ(random_key(1337, 20, 3), philox2x32(20, 3, 1337).x);
}

TEST(Random, KeysOfStepsSitesAndSeedsDiffer) {
  std::set<std::uint32_t> keys;
  for (std::uint32_t seed : {0u, 1u}) {
    for (std::uint32_t step = 0; step < 20; ++step) {
      for (std::uint32_t site = 0; site < 20; ++site) keys.insert(random_key(seed, step, site));
    }
  }
  EXPECT_EQ(keys.size(), 800u);
}

TEST(Random, BitsAreUniformInEveryPosition) {
  constexpr int count = 1 << 16;
  std::vector<int> ones(16);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t bits = random_16_bits(42, i);
    EXPECT_LT(bits, 1u << 16);
    for (int bit = 0; bit < 16; ++bit) ones[bit] += bits >> bit & 1u;
  }
  const double deviation = std::sqrt(count) / 2.0;
  for (int bit = 0; bit < 16; ++bit) EXPECT_NEAR(ones[bit], count / 2, 5.0 * deviation) << "bit " << bit;
}

}  // namespace
}  // namespace hydrac
