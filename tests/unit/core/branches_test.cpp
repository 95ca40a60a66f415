// The waits between the branches of a step's graph.
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

using Waits = std::vector<std::vector<int>>;

TEST(Branches, NeedNoWaitsWhereOneBranchDoesAll) {
  EXPECT_EQ(waits_between_branches({{{writes(0, 8)}, 0}, {{reads(0, 8)}, 0}}), (Waits{{}, {}}));
}

TEST(Branches, AReaderWaitsForTheWriter) {
  EXPECT_EQ(waits_between_branches({{{writes(0, 8)}, 0}, {{reads(4, 12), writes(100, 108)}, 1}}),
            (Waits{{}, {0}}));
}

TEST(Branches, ReadersDoNotWaitForEachOther) {
  EXPECT_EQ(waits_between_branches({{{reads(0, 8)}, 0}, {{reads(0, 8)}, 1}}), (Waits{{}, {}}));
}

TEST(Branches, NeighboursInMemoryAreApart) {
  EXPECT_EQ(waits_between_branches({{{writes(0, 8)}, 0}, {{writes(8, 16)}, 1}}), (Waits{{}, {}}));
}

// A gradient's matmul still reads what the next layer overwrites: the plan gave both the same bytes.
TEST(Branches, WhoReusesMemoryWaitsForItsLastReader) {
  const std::vector<BranchStep> steps = {{{writes(0, 8)}, 0},                    // d_up of a layer
                                         {{reads(0, 8), writes(100, 108)}, 1},   // its weight gradient
                                         {{reads(0, 8), writes(200, 208)}, 0},   // goes on
                                         {{reads(200, 208), writes(0, 8)}, 0}};  // d_up of the next layer
  EXPECT_EQ(waits_between_branches(steps), (Waits{{}, {0}, {}, {1}}));
}

// What its branch has waited for once need not be waited for again.
TEST(Branches, OneWaitServesAllThatComesAfter) {
  const std::vector<BranchStep> steps = {
      {{writes(0, 8)}, 0}, {{writes(8, 16)}, 0}, {{reads(8, 16)}, 1}, {{reads(0, 8)}, 1}};
  EXPECT_EQ(waits_between_branches(steps), (Waits{{}, {}, {1}, {}}));
}

// What sums gradients over ranks waits for whoever made them; what a third branch waits for is its own
// matter.
TEST(Branches, ACallMayWaitForSeveralOthers) {
  const std::vector<BranchStep> steps = {{{writes(0, 8)}, 0},                 // a vector's gradient
                                         {{writes(8, 16)}, 1},                // a matrix's
                                         {{writes(0, 16)}, 2},                // both are summed over ranks
                                         {{writes(16, 24)}, 1},               // goes on
                                         {{reads(0, 8), reads(16, 24)}, 0}};  // the update
  EXPECT_EQ(waits_between_branches(steps), (Waits{{}, {}, {0, 1}, {}, {3, 2}}));
}

}  // namespace
}  // namespace hydrac::program
