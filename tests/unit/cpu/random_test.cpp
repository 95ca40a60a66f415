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

}  // namespace
}  // namespace hydrac
