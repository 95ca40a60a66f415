// Texts of an encoder in rows: each a document of its own, in its order.
#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/train/generation/text_batches.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;

TEST(TextBatches, FillRowsInOrder) {
  const std::vector<EncodedText> texts = {
      {0, {1, 2}}, {1, {3, 4, 5}}, {2, {6, 7, 8, 9}}, {3, {10}}, {4, {11}}};
  const std::vector<Batch> full = text_batches(texts, {2, 5}, false);
  ASSERT_EQ(full.size(), 2u);  // the last text finds both rows full
  EXPECT_EQ(full[0].tokens, (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(full[1].tokens, (Ids{11, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const std::vector<Batch> more = text_batches(texts, {2, 6}, false);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].tokens, (Ids{1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(more[0].segments, (Ids{0, 0, 1, 1, 1, -1, 2, 2, 2, 2, 3, 4}));
  EXPECT_EQ(more[0].positions, (Ids{0, 1, 0, 1, 2, 0, 0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(more[0].documents, (Ids{0, 2, 0, 2, 2, 5, 2, 5, 2, 5, 5, 6, 0, 4, 0, 4, 0, 4, 0, 4, 4, 5, 5, 6}));
}

TEST(TextBatches, TakeAnotherBatchWhereRowsAreFull) {
  const std::vector<EncodedText> texts = {{0, {1, 2}}, {1, {3, 4}}, {2, {5}}};
  const std::vector<Batch> batches = text_batches(texts, {1, 3}, true);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].tokens, (Ids{1, 2, 0}));
  EXPECT_EQ(batches[0].segments, (Ids{0, -1, -1}));
  EXPECT_EQ(batches[1].tokens, (Ids{3, 4, 5}));
  EXPECT_EQ(batches[1].segments, (Ids{1, -1, 2}));
  EXPECT_EQ(batches[1].documents, (Ids{0, 2, 0, 2, 2, 3}));
  EXPECT_TRUE(text_batches({}, {1, 3}, true).empty());
}

TEST(TextBatches, RefuseTextsThatNoRowHolds) {
  const std::vector<EncodedText> longer = {{0, {1, 2, 3, 4}}}, empty = {{0, {}}};
  EXPECT_THROW(text_batches(longer, {2, 3}, false), std::logic_error);
  EXPECT_THROW(text_batches(empty, {2, 3}, false), std::logic_error);
}

}  // namespace
}  // namespace hydrac::runtime
