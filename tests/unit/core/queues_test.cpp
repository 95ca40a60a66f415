// The waits between the queues of a step.
#include "program/queues.h"

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

TEST(Queues, NeedNoWaitsWhereOneDoesAll) {
  EXPECT_EQ(waits_between_queues({{{writes(0, 8)}, Queue::main}, {{reads(0, 8)}, Queue::main}}),
            (Waits{{}, {}}));
}

TEST(Queues, AReaderWaitsForTheWriter) {
  EXPECT_EQ(
      waits_between_queues({{{writes(0, 8)}, Queue::main}, {{reads(4, 12), writes(100, 108)}, Queue::side}}),
      (Waits{{}, {0}}));
}

TEST(Queues, ReadersDoNotWaitForEachOther) {
  EXPECT_EQ(waits_between_queues({{{reads(0, 8)}, Queue::main}, {{reads(0, 8)}, Queue::side}}),
            (Waits{{}, {}}));
}

TEST(Queues, NeighboursInMemoryAreApart) {
  EXPECT_EQ(waits_between_queues({{{writes(0, 8)}, Queue::main}, {{writes(8, 16)}, Queue::side}}),
            (Waits{{}, {}}));
}

// A gradient's matmul still reads what the next layer overwrites: the plan gave both the same bytes.
TEST(Queues, WhoReusesMemoryWaitsForItsLastReader) {
  const std::vector<QueueStep> steps = {
      {{writes(0, 8)}, Queue::main},                    // d_up of a layer
      {{reads(0, 8), writes(100, 108)}, Queue::side},   // its weight gradient
      {{reads(0, 8), writes(200, 208)}, Queue::main},   // goes on
      {{reads(200, 208), writes(0, 8)}, Queue::main}};  // d_up of the next layer
  EXPECT_EQ(waits_between_queues(steps), (Waits{{}, {0}, {}, {1}}));
}

// What its queue has waited for once need not be waited for again.
TEST(Queues, OneWaitServesAllThatComesAfter) {
  const std::vector<QueueStep> steps = {{{writes(0, 8)}, Queue::main},
                                        {{writes(8, 16)}, Queue::main},
                                        {{reads(8, 16)}, Queue::side},
                                        {{reads(0, 8)}, Queue::side}};
  EXPECT_EQ(waits_between_queues(steps), (Waits{{}, {}, {1}, {}}));
}

// What sums gradients over ranks waits for whoever made them; what a third queue waits for is its own
// matter.
TEST(Queues, ACallMayWaitForSeveralOthers) {
  const std::vector<QueueStep> steps = {
      {{writes(0, 8)}, Queue::main},                 // a vector's gradient
      {{writes(8, 16)}, Queue::side},                // a matrix's
      {{writes(0, 16)}, Queue::communication},       // both are summed over ranks
      {{writes(16, 24)}, Queue::side},               // goes on
      {{reads(0, 8), reads(16, 24)}, Queue::main}};  // the update
  EXPECT_EQ(waits_between_queues(steps), (Waits{{}, {}, {0, 1}, {}, {3, 2}}));
}

}  // namespace
}  // namespace hydrac::program
