#include "runtime/cuda/token_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "../support/temp_dir.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(TokenOrder, SortsByIdAndKeepsTheOrderOfEqualOnes) {
  TokenOrder sorter(5);
  Ids order(6);
  sorter.sort(Ids{3, 0, 3, 4, 0, 3}, order);
  EXPECT_EQ(order, (Ids{1, 4, 0, 2, 5, 3}));
  sorter.sort(Ids{4, 3, 2, 1, 0, 0}, order);  // nothing is left of the batch before
  EXPECT_EQ(order, (Ids{4, 5, 3, 2, 1, 0}));
}

TEST(TokenOrder, AgreesWithAStableSort) {
  std::mt19937 random(3);
  Ids ids(20000), order(ids.size()), expected(ids.size());
  for (int& id : ids) id = static_cast<int>(random() % 300 * (random() % 300) % 50257);
  TokenOrder(50257).sort(ids, order);
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) { return ids[a] < ids[b]; });
  EXPECT_EQ(order, expected);
}

TEST(TokenOrder, AnIdOutsideTheVocabularyIsAnError) {
  TokenOrder sorter(5);
  Ids order(3);
  EXPECT_EQ(test::message_of<RunError>([&] {
              sorter.sort(Ids{1, 5, 2}, order);
            }),
            "token 1 of the batch is 5, outside the vocabulary of 5");
  EXPECT_EQ(test::message_of<RunError>([&] {
              sorter.sort(Ids{1, 2, -1}, order);
            }),
            "token 2 of the batch is -1, outside the vocabulary of 5");
  sorter.sort(Ids{1, 0, 1}, order);
  EXPECT_EQ(order, (Ids{1, 0, 2}));
}

}  // namespace
}  // namespace hydrac::runtime::cuda
