// The rows of experts.
#include "cpu/expert_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace hydrac::cpu {
namespace {

struct Rows {
  std::vector<std::int32_t> source, place, offsets;
};

Rows rows_of(const std::vector<std::int32_t>& experts, const ExpertRowsShape& shape) {
  Rows rows{std::vector<std::int32_t>(static_cast<size_t>(shape.rows), 99),
            std::vector<std::int32_t>(experts.size(), 99),
            std::vector<std::int32_t>(static_cast<size_t>(shape.experts) + 1, 99)};
  expert_rows(experts.data(), rows.source.data(), rows.place.data(), rows.offsets.data(), shape);
  return rows;
}

using Ints = std::vector<std::int32_t>;

TEST(ExpertRows, AreInTheOrderOfExpertsThenOfChoices) {
  const Rows rows = rows_of({2, 0, 2, 3, 0, 2}, {6, 5, 6, 1});
  EXPECT_EQ(rows.source, (Ints{1, 4, 0, 2, 5, 3}));
  EXPECT_EQ(rows.place, (Ints{2, 0, 3, 5, 1, 4}));
  EXPECT_EQ(rows.offsets, (Ints{0, 2, 2, 5, 6, 6})) << "experts 1 and 4 have none";
}

TEST(ExpertRows, BeginAtMultiplesOfABlock) {
  const Rows rows = rows_of({2, 0, 2, 2, 0, 2}, {6, 3, 12, 3});
  EXPECT_EQ(rows.source, (Ints{1, 4, -1, 0, 2, 3, 5, -1, -1, -1, -1, -1}));
  EXPECT_EQ(rows.place, (Ints{3, 0, 4, 5, 1, 6}));
  EXPECT_EQ(rows.offsets, (Ints{0, 3, 3, 9}));
}

TEST(ExpertRows, MayAllBeOneExperts) {
  const Rows rows = rows_of({1, 1, 1}, {3, 2, 6, 2});
  EXPECT_EQ(rows.source, (Ints{0, 1, 2, -1, -1, -1}));
  EXPECT_EQ(rows.offsets, (Ints{0, 0, 4}));
}

}  // namespace
}  // namespace hydrac::cpu
