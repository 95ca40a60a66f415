// Philox against the vectors that Random123 publishes, and the roles that hydrac gives its words.
#include "hydrac/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
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

TEST(Random, BitsTakeTheIndexAsALowAndAHighWord) {
  EXPECT_EQ(random_bits(5, 0x123456789ABCDEF0u), philox2x32(0x9ABCDEF0u, 0x12345678u, 5).x);
}

TEST(Random, RowsAreTheBitsOfTheirElements) {
  for (std::uint64_t first :
       {std::uint64_t{0}, std::uint64_t{0xFFFFFFF0u}, std::uint64_t{0x123456789ABCDEF0u}}) {
    for (std::uint64_t step : {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{0x30000000u}}) {
      std::uint32_t bits[16];
      cpu::random_row(77, first, step, bits);
      for (std::uint64_t i = 0; i < 16; ++i)
        EXPECT_EQ(bits[i], random_bits(77, first + i * step)) << first << ' ' << i;
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
  std::vector<int> ones(32);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t bits = random_bits(42, i);
    for (int bit = 0; bit < 32; ++bit) ones[bit] += bits >> bit & 1u;
  }
  const double deviation = std::sqrt(count) / 2.0;
  for (int bit = 0; bit < 32; ++bit) EXPECT_NEAR(ones[bit], count / 2, 5.0 * deviation) << "bit " << bit;
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
