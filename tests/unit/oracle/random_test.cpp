#include "oracle/job/random.h"

#include <gtest/gtest.h>

namespace hydrac::oracle {
namespace {

// The published test vectors of Philox2x32 with ten rounds, {counter, key, words}.
TEST(Random, FourNeighboursShareThePublishedWords) {
  EXPECT_EQ(random_16_bits(0, 0), 0xae59u);  // {0, 0, ff1dae59 6cd10df2}
  EXPECT_EQ(random_16_bits(0, 1), 0xff1du);
  EXPECT_EQ(random_16_bits(0, 2), 0x0df2u);
  EXPECT_EQ(random_16_bits(0, 3), 0x6cd1u);
}

TEST(Random, ScoresOfQueriesAndKeysEightApartAreNeighbours) {
  EXPECT_EQ(score_index(0, 16, 0, 0), 0u);
  EXPECT_EQ(score_index(0, 16, 0, 8), 1u);
  EXPECT_EQ(score_index(0, 16, 8, 0), 2u);
  EXPECT_EQ(score_index(0, 16, 8, 8), 3u);
  EXPECT_EQ(score_index(0, 16, 0, 1), 4u);
  EXPECT_EQ(score_index(0, 16, 1, 0), 8u * 4);
  EXPECT_EQ(score_index(0, 17, 1, 16), (16u + 8) * 4);
  EXPECT_EQ(score_index(0, 17, 16, 9), (8u * 16 + 1) * 4 + 1);
  EXPECT_EQ(score_index(5, 17, 16, 9), (5ull << 34) + (8u * 16 + 1) * 4 + 1);
}

TEST(Random, KeyCountsStepThenSite) {
  EXPECT_EQ(random_key(0x13198a2eu, 0x243f6a88u, 0x85a308d3u), 0xdd7ce038u);
}

// Both words of the published vectors, in halves.
TEST(Random, SixteenBitsAreHalvesOfBothWords) {
  EXPECT_EQ(random_16_bits(0, 0), 0xae59u);
  EXPECT_EQ(random_16_bits(0, 1), 0xff1du);
  EXPECT_EQ(random_16_bits(0, 2), 0x0df2u);
  EXPECT_EQ(random_16_bits(0, 3), 0x6cd1u);
}

TEST(Random, RoundsUpWhereNoiseAndDistanceReachAnUlp) {
  const double low = 1 + 0x1p-7, high = 1 + 0x1p-6;
  EXPECT_EQ(round_stochastically(low, 65535), low);
  EXPECT_EQ(round_stochastically(low + 0x1p-9, 0xBFFF), low);  // a quarter
  EXPECT_EQ(round_stochastically(low + 0x1p-9, 0xC000), high);
  EXPECT_EQ(round_stochastically(-low - 0x1p-9, 0xC000), -high);
  EXPECT_EQ(round_stochastically(0x1p-134, 0x7FFF), 0);  // half of the smallest number
  EXPECT_EQ(round_stochastically(0x1p-134, 0x8000), 0x1p-133);
  EXPECT_EQ(round_stochastically(0x1.FEp127, 65535), 0x1.FEp127);
}

}  // namespace
}  // namespace hydrac::oracle
