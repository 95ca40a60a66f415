// Masks say the same as ranges, tile by tile and pair by pair.
#include "ops/attention_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "attention/mask.h"

namespace hydrac::test {
namespace {

struct Sizes {
  int tokens, window;
  const std::int32_t* documents;
};

template <class Mask>
class Masks : public testing::Test {};
using All = testing::Types<FullMask, CausalMask, WindowMask, DocumentMask<FullMask>, DocumentMask<CausalMask>,
                           DocumentMask<WindowMask>>;
TYPED_TEST_SUITE(Masks, All);

// Documents of `length` tokens, that much and one more by turns.
std::vector<std::int32_t> documents_of(int tokens, int length) {
  std::vector<std::int32_t> documents;
  for (int first = 0, next = 0, count = 0; first < tokens; first = next, ++count) {
    next = std::min(tokens, first + length + count % 2);
    for (int token = first; token < next; ++token) documents.insert(documents.end(), {first, next});
  }
  return documents;
}

template <class Visit>
void for_sizes(Visit visit) {
  for (int tokens : {1, 2, 7, 20}) {
    for (int window : {1, 2, 5, 19, 20, 40}) {
      for (int length : {1, 3, 6, 30}) visit(Sizes{tokens, window, documents_of(tokens, length).data()});
    }
  }
}

TYPED_TEST(Masks, RangesAreWhatIsSeen) {
  for_sizes([](const Sizes& sizes) {
    int64_t pairs = 0;
    for (int query = 0; query < sizes.tokens; ++query) {
      const TokenRange keys = TypeParam::keys_of(sizes, query);
      for (int key = 0; key < sizes.tokens; ++key) {
        const bool seen = TypeParam::sees(sizes, query, key);
        const TokenRange queries = TypeParam::queries_of(sizes, key);
        EXPECT_EQ(seen, keys.first <= key && key < keys.end) << query << " " << key;
        EXPECT_EQ(seen, queries.first <= query && query < queries.end) << query << " " << key;
        pairs += seen;
      }
    }
    EXPECT_EQ(visible_pairs<TypeParam>(sizes), pairs);
  });
}

TYPED_TEST(Masks, TilesAreSeenAsTheirPairsAre) {
  constexpr int kTile = 4;
  for_sizes([](const Sizes& sizes) {
    for (int query = 0; query + kTile <= sizes.tokens; query += kTile) {
      for (int key = 0; key + kTile <= sizes.tokens; key += kTile) {
        int seen = 0;
        for (int i = 0; i < kTile * kTile; ++i)
          seen += TypeParam::sees(sizes, query + i / kTile, key + i % kTile);
        const TokenRange queries{query, query + kTile}, keys{key, key + kTile};
        EXPECT_EQ(sees_all<TypeParam>(sizes, queries, keys), seen == kTile * kTile) << query << " " << key;
        EXPECT_EQ(sees_any<TypeParam>(sizes, queries, keys), seen > 0) << query << " " << key;
        const TokenRange any_keys = keys_of_any<TypeParam>(sizes, query, query + kTile - 1);
        const TokenRange any_queries = queries_of_any<TypeParam>(sizes, key, key + kTile - 1);
        EXPECT_EQ(seen > 0, any_keys.first < keys.end && keys.first < any_keys.end);
        EXPECT_EQ(seen > 0, any_queries.first < queries.end && queries.first < any_queries.end);
      }
    }
  });
}

TEST(AttentionRules, CountVisiblePairs) {
  using Mask = ops::AttentionRules::Mask;
  EXPECT_EQ(ops::visible_pairs({.mask = Mask::full}, 10), 100);
  EXPECT_EQ(ops::visible_pairs({}, 10), 55);
  EXPECT_EQ(ops::visible_pairs({.mask = Mask::window, .window = 3}, 10), 27);
  EXPECT_EQ(ops::visible_pairs({.mask = Mask::window, .window = 10}, 10), 55);
  // Two of three layers have the window.
  EXPECT_NEAR(ops::visible_pairs({.mask = Mask::window, .window = 3, .window_period = 3}, 10),
              (27 + 27 + 55) / 3.0, 1e-9);
}

TEST(AttentionRules, ASequenceOfDocumentsCountsAsOne) {
  const ops::AttentionRules rules{.documents = true};
  EXPECT_EQ(ops::visible_pairs(rules, 10), 55);
  EXPECT_EQ(ops::mask_type(rules), "DocumentMask<CausalMask>");
}

TEST(AttentionRules, EveryNthLayerSeesAllTokensBefore) {
  const ops::AttentionRules rules{.mask = ops::AttentionRules::Mask::window, .window = 2, .window_period = 3};
  for (int64_t layer = 0; layer < 7; ++layer) {
    EXPECT_EQ(ops::sees(rules, 10, layer, 9, 0), layer == 2 || layer == 5) << layer;
    EXPECT_TRUE(ops::sees(rules, 10, layer, 9, 8));
    EXPECT_FALSE(ops::sees(rules, 10, layer, 8, 9));
  }
}

}  // namespace
}  // namespace hydrac::test
