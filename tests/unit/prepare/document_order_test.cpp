// Documents from easy to hard.
#include <gtest/gtest.h>

#include "prepare/document_order.h"
#include "prepare/scratch_file.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::prepare {
namespace {

class DocumentOrder : public testing::Test {
 protected:
  // Documents of these ids, with their end-of-text tokens, as ids of 2 or 4 bytes.
  void SetUp() override { write(2); }
  void write(int width) {
    ScratchFile file(dir_.path() / "tokens");
    corpus_ = {};
    corpus_.width = width;
    uint64_t end = 0;
    for (const std::vector<uint32_t>& document : kDocuments) {
      for (const uint32_t id : document)
        file.append({reinterpret_cast<const char*>(&id), static_cast<size_t>(width)});
      corpus_.ends.push_back(end += document.size());
    }
    corpus_.file = file.map();
  }
  std::vector<Stretch> documents() const {
    std::vector<Stretch> all;
    for (size_t i = 0; i < corpus_.ends.size(); ++i)
      all.push_back({corpus_.begin(i), corpus_.ends[i], false});
    return all;
  }
  static std::vector<uint64_t> begins(const std::vector<Stretch>& list) {
    std::vector<uint64_t> places;
    for (const Stretch& stretch : list) places.push_back(stretch.begin);
    return places;
  }

  static constexpr uint32_t kEnd = 9;
  inline static const std::vector<std::vector<uint32_t>> kDocuments = {
      {3, 3, kEnd}, {1, 1, 2, 2, 1, kEnd}, {2, kEnd}, {kEnd}, {1, 1, kEnd}};  // at 0, 3, 9, 11, 12
  const test::TempDir dir_;
  TokenCorpus corpus_;
};

TEST_F(DocumentOrder, ByLengthKeepsEqualOnesAsTheyAre) {
  std::vector<Stretch> list = documents();
  sort_by_length({corpus_, true}, list);
  EXPECT_EQ(begins(list), (std::vector<uint64_t>{11, 9, 0, 12, 3}));
}

// Of ten tokens that are no ends, five are 1, three 2, two 3; in nats 0.69, 1.20, 1.61.
TEST_F(DocumentOrder, ByRarityIsTheMeanOverADocument) {
  for (const int width : {2, 4}) {
    write(width);
    std::vector<Stretch> list = documents();
    sort_by_rarity({corpus_, true}, list);
    EXPECT_EQ(begins(list), (std::vector<uint64_t>{11, 12, 3, 9, 0}));
  }
}

TEST_F(DocumentOrder, RepetitionsMakeATokenCommon) {
  std::vector<Stretch> list = documents();
  for (int i = 0; i < 5; ++i) list.push_back(list[0]);
  sort_by_rarity({corpus_, true}, list);
  EXPECT_EQ(begins(list), (std::vector<uint64_t>{11, 0, 0, 0, 0, 0, 0, 12, 3, 9}));
}

TEST_F(DocumentOrder, AStretchThatIsCutHasNoEndOfItsOwn) {
  const DocumentTokens tokens(corpus_, true), without_ends(corpus_, false);
  EXPECT_EQ(tokens.ids({3, 9, false}), (std::vector<int32_t>{1, 1, 2, 2, 1}));
  EXPECT_EQ(tokens.ids({3, 6, true}), (std::vector<int32_t>{1, 1, 2}));
  EXPECT_EQ(without_ends.ids({3, 9, false}), (std::vector<int32_t>{1, 1, 2, 2, 1, 9}));
  EXPECT_EQ(tokens.count({11, 12, false}), 0u);
}

}  // namespace
}  // namespace hydrac::prepare
