#include "oracle/job/random.h"

#include <gtest/gtest.h>

namespace hydrac::oracle {
namespace {

// The published test vectors of Philox2x32 with ten rounds: counter, key, first word.
TEST(Random, MatchesThePublishedVectors) {
  EXPECT_EQ(random_bits(0, 0), 0xff1dae59u);
  EXPECT_EQ(random_bits(0xffffffffu, 0xffffffffffffffffull), 0x2c3f628bu);
  EXPECT_EQ(random_bits(0x13198a2eu, 0x85a308d3243f6a88ull), 0xdd7ce038u);
}

TEST(Random, KeyCountsStepThenSite) {
  EXPECT_EQ(random_key(0x13198a2eu, 0x243f6a88u, 0x85a308d3u), 0xdd7ce038u);
}

}  // namespace
}  // namespace hydrac::oracle
