// The waits between the two branches of a step's graph.
#include "program/branches.h"

#include <gtest/gtest.h>

namespace hydrac::program {
namespace {

Access reads(int64_t first, int64_t last) {
  return {first, last, false};
}
Access writes(int64_t first, int64_t last) {
  return {first, last, true};
}

using Waits = std::vector<int>;

TEST(Branches, NeedNoWaitsWhereOneBranchDoesAll) {
  EXPECT_EQ(waits_between_branches({{{writes(0, 8)}, 0}, {{reads(0, 8)}, 0}}), (Waits{-1, -1}));
}

TEST(Branches, AReaderWaitsForTheWriter) {
  EXPECT_EQ(waits_between_branches({{{writes(0, 8)}, 0}, {{reads(4, 12), writes(100, 108)}, 1}}),
            (Waits{-1, 0}));
}

TEST(Branches, ReadersDoNotWaitForEachOther) {
  EXPECT_EQ(waits_between_branches({{{reads(0, 8)}, 0}, {{reads(0, 8)}, 1}}), (Waits{-1, -1}));
}

TEST(Branches, NeighboursInMemoryAreApart) {
  EXPECT_EQ(waits_between_branches({{{writes(0, 8)}, 0}, {{writes(8, 16)}, 1}}), (Waits{-1, -1}));
}

// A gradient's matmul still reads what the next layer overwrites: the plan gave both the same bytes.
TEST(Branches, WhoReusesMemoryWaitsForItsLastReader) {
  const std::vector<BranchStep> steps = {{{writes(0, 8)}, 0},                    // d_up of a layer
                                         {{reads(0, 8), writes(100, 108)}, 1},   // its weight gradient
                                         {{reads(0, 8), writes(200, 208)}, 0},   // goes on
                                         {{reads(200, 208), writes(0, 8)}, 0}};  // d_up of the next layer
  EXPECT_EQ(waits_between_branches(steps), (Waits{-1, 0, -1, 1}));
}

// What its branch has waited for once need not be waited for again.
TEST(Branches, OneWaitServesAllThatComesAfter) {
  const std::vector<BranchStep> steps = {
      {{writes(0, 8)}, 0}, {{writes(8, 16)}, 0}, {{reads(8, 16)}, 1}, {{reads(0, 8)}, 1}};
  EXPECT_EQ(waits_between_branches(steps), (Waits{-1, -1, 1, -1}));
}

}  // namespace
}  // namespace hydrac::program
