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
      simd::philox_row(first, step, 0x12345678u, 77, words);
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

TEST(Random, FourNeighboursShareADrawsHalves) {
  for (const std::uint64_t draw : {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{0x123456789A}}) {
    const Philox2x32 words =
        philox2x32(static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(draw >> 32), 77);
    EXPECT_EQ(random_16_bits(77, 4 * draw), words.x & 0xFFFFu);
    EXPECT_EQ(random_16_bits(77, 4 * draw + 1), words.x >> 16);
    EXPECT_EQ(random_16_bits(77, 4 * draw + 2), words.y & 0xFFFFu);
    EXPECT_EQ(random_16_bits(77, 4 * draw + 3), words.y >> 16);
  }
}

constexpr float kLargestBf16 = 0x1.FEp127f;

bool is_bf16(float x) {
  return (float_bits(x) & 0xFFFFu) == 0;
}

// Over all noise the mean is the number itself: exactly, since each of the 2^16 counts once.
TEST(StochasticRounding, OfAllNoiseTogetherIsTheNumberItself) {
  for (const float x : {1.0f, 1.00001f, -3.14159f, 0.1f, 1e-20f, -7.3e30f, 0x1.23456p-126f, -0x1.8p-140f,
                        0x1.FFFFFEp3f, 0x1.FDFFFEp127f}) {
    double sum = 0;
    std::set<float> results;
    for (std::uint32_t noise = 0; noise < 65536; ++noise) {
      const float rounded = round_stochastically(x, noise);
      ASSERT_TRUE(is_bf16(rounded)) << x;
      sum += rounded;
      results.insert(rounded);
    }
    EXPECT_DOUBLE_EQ(sum / 65536, x);
    ASSERT_LE(results.size(), 2u);
    EXPECT_LE(*results.begin(), x);
    EXPECT_GE(*results.rbegin(), x);
  }
}

TEST(StochasticRounding, KeepsNumbersOfBf16) {
  for (const float x : {0.0f, -0.0f, 1.0f, -1.5f, 0x1p-133f, kLargestBf16, -kLargestBf16}) {
    for (const std::uint32_t noise : {0u, 1u, 32768u, 65535u})
      EXPECT_EQ(float_bits(round_stochastically(x, noise)), float_bits(x)) << x;
  }
}

TEST(StochasticRounding, LeavesWhatIsNotFiniteOrBeyondBf16) {
  const float infinity = INFINITY;
  for (const float x : {infinity, -infinity, 0x1.FEFFFEp127f, -0x1.FF8p127f, 0x1.FFFFFEp127f}) {
    for (const std::uint32_t noise : {0u, 65535u}) EXPECT_EQ(round_stochastically(x, noise), x);
  }
  for (const std::uint32_t bits : {0x7FFFFFFFu, 0x7F800001u, 0xFFC00000u})
    EXPECT_TRUE(std::isnan(round_stochastically(float_from_bits(bits), 65535)));
}

// The same with drawn noise. The mean of n draws has a deviation of at most half an ulp / sqrt(n).
TEST(StochasticRounding, IsUnbiasedOverDraws) {
  constexpr int count = 1 << 16;
  for (const float share : {0.01f, 0.3f, 0.5f, 0.9f}) {
    const float x = 1 + share * 0x1p-7f;
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += round_stochastically(x, random_16_bits(1234, i));
    EXPECT_NEAR(sum / count, x, 5 * 0x1p-8 / std::sqrt(count));
  }
}

}  // namespace
}  // namespace hydrac
