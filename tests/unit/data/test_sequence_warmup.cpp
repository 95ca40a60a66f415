// Sequences that grow: how long they are in which step, and what loaders make of rows.
#include "runtime/data/sequence_warmup.h"

#include <algorithm>
#include <numeric>

#include "data_test.h"
#include "runtime/data/token_loader.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;

Ids lengths(const SequenceWarmup& warmup, int64_t steps) {
  Ids all;
  for (int64_t step = 0; step < steps; ++step) all.push_back(static_cast<int32_t>(warmup.length_after(step)));
  return all;
}

TEST(SequenceWarmup, GrowsByMultiplesOfItsStartForEquallyManySteps) {
  EXPECT_EQ(lengths({.sequence_len = 32, .start = 8, .steps = 9}, 12),
            (Ids{8, 8, 8, 16, 16, 16, 24, 24, 24, 32, 32, 32}));
}

TEST(SequenceWarmup, EndsWithTheWholeLengthAlsoWhereItIsNoMultiple) {
  EXPECT_EQ(lengths({.sequence_len = 21, .start = 8, .steps = 4}, 6), (Ids{8, 8, 8, 16, 21, 21}));
  EXPECT_EQ(lengths({.sequence_len = 10, .start = 8, .steps = 2}, 3), (Ids{8, 8, 10}));
  EXPECT_EQ(lengths({.sequence_len = 5, .start = 1, .steps = 4}, 6), (Ids{1, 2, 3, 4, 5, 5}));
}

TEST(SequenceWarmup, NeverShrinksAndIsNeverBelowItsStartNorWholeTooEarly) {
  for (const int64_t start : {1, 3, 64}) {
    for (const int64_t steps : {1, 7, 1000}) {
      const SequenceWarmup warmup{.sequence_len = 100, .start = start, .steps = steps};
      const Ids all = lengths(warmup, steps + 2);
      EXPECT_TRUE(std::ranges::is_sorted(all));
      EXPECT_EQ(all.front(), start);
      EXPECT_LT(all[static_cast<size_t>(steps - 1)], 100);
      EXPECT_EQ(all[static_cast<size_t>(steps)], 100);
    }
  }
}

TEST(SequenceWarmup, LargeRunsDoNotOverflow) {
  const int64_t most = 1000000000, length = 1 << 24;
  const SequenceWarmup warmup{.sequence_len = length, .start = 1, .steps = most, .samples_per_step = 1 << 30};
  EXPECT_EQ(warmup.length_after(most / 2), length / 2);
  EXPECT_EQ(warmup.length_of((most - 1) << 30), length - 1);
  EXPECT_EQ(warmup.length_of(most << 30), length);
}

TEST(SequenceWarmup, ASampleHasTheLengthOfItsStep) {
  const SequenceWarmup warmup{.sequence_len = 16, .start = 4, .steps = 3, .samples_per_step = 6};
  for (int64_t sample = 0; sample < 30; ++sample)
    EXPECT_EQ(warmup.length_of(sample), warmup.length_after(sample / 6)) << sample;
}

std::shared_ptr<const TokenStore> store_with(const std::vector<uint32_t>& tokens) {
  const auto ids = std::make_shared<std::vector<uint32_t>>(tokens);
  return std::make_shared<TokenStore>(
      std::vector<TokenStore::Segment>{{ids, ids->data(), 4, static_cast<int64_t>(ids->size()), "ids"}},
      1000);
}

std::shared_ptr<const TokenStore> numbered_store(uint32_t size) {
  std::vector<uint32_t> tokens(size);
  std::iota(tokens.begin(), tokens.end(), 0u);
  return store_with(tokens);
}

// Two rows of 5 a micro-batch, four a step: 2 tokens, 2, 4, 5.
constexpr SequenceWarmup kWarmup{.sequence_len = 5, .start = 2, .steps = 3, .samples_per_step = 4};

TEST(TokenLoader, RowsAreCutAndLoseNoTarget) {
  const TokenLoader loader(
      TokenDataset::split(numbered_store(101), 0),
      {.batch_size = 2, .sequence_len = 5, .seed = 7, .shuffle = false, .warmup = kWarmup});
  Batch batch;
  loader.fill_train(6, batch);  // the second step's last micro-batch
  EXPECT_EQ(batch.stage.sequence_len, 2);
  EXPECT_EQ(batch.tokens, (Ids{30, 31, 32, 33, 34, 35, 36, 37, 38, 39}));
  EXPECT_EQ(batch.targets, (Ids{31, 32, 33, 34, 35, 36, 37, 38, 39, 40}));
  EXPECT_EQ(batch.target_count, 10);
  EXPECT_EQ(batch.documents, (Ids{0, 2, 0, 2, 2, 4, 2, 4, 4, 5, 0, 2, 0, 2, 2, 4, 2, 4, 4, 5}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 0, 1, 0, 0, 1, 0, 1, 0}));
  loader.fill_train(8, batch);
  EXPECT_EQ(batch.stage.sequence_len, 4);
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 0, 0, 1, 2, 3, 0}));
  for (const int64_t sample : {12, 14, 40}) {  // whole
    loader.fill_train(sample, batch);
    EXPECT_EQ(batch.stage.sequence_len, 5);
    EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
    EXPECT_EQ(batch.documents, (Ids{0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5}));
  }
}

TEST(TokenLoader, ValidationRowsAreWholeAndAllSayTheirDocuments) {
  const TokenLoader loader(TokenDataset::separate(numbered_store(101), numbered_store(10)),
                           {.batch_size = 3, .sequence_len = 5, .seed = 7, .warmup = kWarmup});
  ASSERT_EQ(loader.eval_batches(), 1);
  Batch batch;
  loader.fill_train(0, batch);
  loader.fill_eval(0, batch);
  EXPECT_EQ(batch.stage.sequence_len, 0);
  EXPECT_EQ(batch.target_count, 9);
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
}

TEST(TokenLoader, RowsAreCutWhereDocumentsEndToo) {
  // 9 ends a document: its last target is ignored, and that of a cut is not.
  const TokenLoader loader(TokenDataset::split(store_with({1, 9, 3, 4, 5, 6}), 0),
                           {.batch_size = 1,
                            .sequence_len = 5,
                            .seed = 7,
                            .document_end = 9,
                            .warmup = {.sequence_len = 5, .start = 3, .steps = 2, .samples_per_step = 1}});
  Batch batch;
  loader.fill_train(0, batch);
  EXPECT_EQ(batch.targets, (Ids{9, kIgnoredTarget, 4, 5, 6}));
  EXPECT_EQ(batch.documents, (Ids{0, 2, 0, 2, 2, 3, 3, 5, 3, 5}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 0, 0, 1}));
  loader.fill_train(2, batch);
  EXPECT_EQ(batch.documents, (Ids{0, 2, 0, 2, 2, 5, 2, 5, 2, 5}));
}

TEST(BatchSource, FindsTheLengthOfItsSequencesAgain) {
  const auto loader = std::make_shared<const TokenLoader>(
      TokenDataset::split(numbered_store(400), 0),
      TokenLoaderOptions{.batch_size = 2, .sequence_len = 5, .seed = 7, .warmup = kWarmup});
  for (const bool prefetch : {false, true}) {
    const auto whole = make_batch_source(loader, 2, prefetch),
               resumed = make_batch_source(loader, 2, prefetch);
    for (int64_t step = 0; step < 6; ++step) {
      resumed->next();
      resumed->seek(step);
      const std::vector<Batch>& expected = whole->next();
      const std::vector<Batch>& found = resumed->next();
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(expected[i].stage.sequence_len, kWarmup.length_after(step));
        EXPECT_EQ(found[i].stage.sequence_len, expected[i].stage.sequence_len);
        EXPECT_EQ(found[i].tokens, expected[i].tokens);
        EXPECT_EQ(found[i].documents, expected[i].documents);
        EXPECT_EQ(found[i].positions, expected[i].positions);
      }
    }
  }
}

}  // namespace
}  // namespace hydrac::runtime
