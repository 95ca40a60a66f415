// Windows over tokens: the split, the shuffle, validation, and what a source makes of them.
#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <set>

#include "data_test.h"
#include "runtime/data/token_loader.h"
#include "runtime/data/val_split.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;

// Tokens 0, 1, 2, ...: a token is its own position.
std::shared_ptr<const TokenStore> counting_store(int64_t size) {
  const auto ids = std::make_shared<std::vector<uint32_t>>(static_cast<size_t>(size));
  std::iota(ids->begin(), ids->end(), 0u);
  return std::make_shared<TokenStore>(std::vector<TokenStore::Segment>{{ids, ids->data(), 4, size, "ids"}},
                                      size);
}

std::shared_ptr<const TokenLoader> loader_of(int64_t size, double val_fraction, TokenLoaderOptions options) {
  return std::make_shared<TokenLoader>(TokenDataset::split(counting_store(size), val_fraction), options);
}

TEST(KeyedPermutation, IsOneForEverySize) {
  for (const int64_t size : {1, 2, 3, 4, 5, 7, 16, 17, 1000, 4097}) {
    std::set<int64_t> seen;
    const KeyedPermutation permutation(size, 42);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t image = permutation(i);
      EXPECT_GE(image, 0);
      EXPECT_LT(image, size);
      seen.insert(image);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
  }
}

TEST(KeyedPermutation, DependsOnItsKeyAndMixesWell) {
  const int64_t size = 1000;
  const KeyedPermutation one(size, 1), other(size, 2);
  int64_t same = 0, neighbours = 0, fixed = 0;
  for (int64_t i = 0; i < size; ++i) {
    same += one(i) == other(i);
    fixed += one(i) == i;
    neighbours += i > 0 && std::abs(one(i) - one(i - 1)) == 1;
  }
  EXPECT_LT(same, 10);
  EXPECT_LT(fixed, 10);
  EXPECT_LT(neighbours, 12);
}

std::shared_ptr<const TokenStore> token_store(const std::vector<uint32_t>& tokens) {
  const auto ids = std::make_shared<std::vector<uint32_t>>(tokens);
  return std::make_shared<TokenStore>(
      std::vector<TokenStore::Segment>{{ids, ids->data(), 4, static_cast<int64_t>(ids->size()), "ids"}}, 100);
}

TEST(TokenLoader, DocumentsEndBehindTheirLastToken) {
  // 9 ends a document.
  const TokenLoader loader(
      TokenDataset::split(token_store({1, 2, 9, 3, 9, 9, 4, 5, 6, 7, 9, 8, 1}), 0),
      {.batch_size = 2, .sequence_len = 6, .seed = 7, .shuffle = false, .document_end = 9});
  Batch batch;
  loader.fill_train(0, batch);
  const int32_t no = kIgnoredTarget;
  EXPECT_EQ(batch.tokens, (Ids{1, 2, 9, 3, 9, 9, 4, 5, 6, 7, 9, 8}));
  EXPECT_EQ(batch.targets, (Ids{2, 9, no, 9, no, no, 5, 6, 7, 9, no, 1}));
  EXPECT_EQ(batch.target_count, 8);
  EXPECT_EQ(batch.documents, (Ids{0, 3, 0, 3, 0, 3, 3, 5, 3, 5, 5, 6,  //
                                  0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 5, 6}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 4, 0}));
}

TEST(TokenLoader, WithoutAnEndThereAreNoDocuments) {
  const TokenLoader loader(TokenDataset::split(token_store({1, 2, 9, 3, 9, 9, 4}), 0),
                           {.batch_size = 1, .sequence_len = 6, .seed = 7});
  Batch batch;
  loader.fill_train(0, batch);
  EXPECT_EQ(batch.target_count, 6);
  EXPECT_TRUE(batch.documents.empty());
  EXPECT_TRUE(batch.positions.empty());
}

TEST(TokenLoader, AResumedSourceFindsTheSameDocuments) {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 400; ++i) tokens.push_back(i * i % 10);
  const auto loader = std::make_shared<const TokenLoader>(
      TokenDataset::split(token_store(tokens), 0),
      TokenLoaderOptions{.batch_size = 2, .sequence_len = 16, .seed = 7, .document_end = 9});
  const auto whole = make_batch_source(loader, 2), resumed = make_batch_source(loader, 2);
  for (int step = 0; step < 5; ++step) whole->next();
  resumed->seek(5);
  const Batch expected = whole->next()[1], found = resumed->next()[1];
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.targets, expected.targets);
  EXPECT_EQ(found.documents, expected.documents);
  EXPECT_EQ(found.positions, expected.positions);
  EXPECT_GT(std::ranges::count(found.positions, 0), 2);
}

// Rows that a last batch does not need have documents too, as the program reads them.
TEST(TokenLoader, ValidationHasDocumentsInEveryRow) {
  const TokenLoader loader(
      TokenDataset::separate(token_store({1, 9, 2, 3, 4}), token_store({1, 2, 9, 3, 4, 9, 5})),
      {.batch_size = 3, .sequence_len = 4, .seed = 7, .document_end = 9});
  ASSERT_EQ(loader.eval_batches(), 1);
  Batch batch;
  loader.fill_eval(0, batch);
  const int32_t no = kIgnoredTarget;
  EXPECT_EQ(batch.targets, (Ids{2, 9, no, 4, no, no, 9, no, no, no, no, no}));
  EXPECT_EQ(batch.target_count, 4);
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 0, 0, 0, 1, 2, 0, 1, 2, 3}));
  EXPECT_EQ(batch.documents, (Ids{0, 3, 0, 3, 0, 3, 3, 4, 0, 1, 1, 4, 1, 4, 1, 4, 0, 4, 0, 4, 0, 4, 0, 4}));
}

TEST(TokenDataset, SplitsAsNanoGptDoes) {
  const auto data = TokenDataset::split(counting_store(1115394), 0.1);
  EXPECT_EQ(data.train.begin, 0);
  EXPECT_EQ(data.train.end, 1003854);
  EXPECT_EQ(data.val.begin, 1003854);
  EXPECT_EQ(data.val.end, 1115394);
  EXPECT_EQ(TokenDataset::split(counting_store(100), 0.0).val.size(), 0);
}

TEST(TokenLoader, TargetsAreTheNextTokens) {
  const auto loader = loader_of(1000, 0.1, {.batch_size = 3, .sequence_len = 8, .seed = 7});
  Batch batch;
  loader->fill_train(5, batch);
  ASSERT_EQ(batch.tokens.size(), 24u);
  ASSERT_EQ(batch.targets.size(), 24u);
  EXPECT_EQ(batch.target_count, 24);
  EXPECT_TRUE(batch.features.empty());
  EXPECT_TRUE(batch.float_targets.empty());
  for (size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(batch.tokens[i],
              loader->window_begin(5 + static_cast<int64_t>(i / 8)) + static_cast<int64_t>(i % 8));
    EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
    EXPECT_LT(batch.targets[i], 900) << "validation data leaked";
  }
}

TEST(TokenLoader, SeesEveryWindowOnceAnEpochAndCutsThemAnew) {
  const int64_t size = 1003, length = 10;
  const auto loader = loader_of(size, 0.0, {.batch_size = 1, .sequence_len = length, .seed = 3});
  const int64_t windows = loader->samples_per_epoch();
  EXPECT_EQ(windows, (size - length) / length);
  std::set<int64_t> starts;
  std::vector<int64_t> first_order;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < windows; ++i) order.push_back(loader->window_begin(epoch * windows + i));
    std::vector<int64_t> begins = order;
    std::sort(begins.begin(), begins.end());
    for (size_t i = 1; i < begins.size(); ++i)
      ASSERT_EQ(begins[i] - begins[i - 1], length) << "a gap or an overlap";
    EXPECT_GE(begins.front(), 0);
    EXPECT_LT(begins.back() + length, size);
    starts.insert(begins.front());
    EXPECT_NE(order, begins) << "not shuffled";
    EXPECT_NE(order, first_order) << "the same order again";
    first_order = order;
  }
  EXPECT_GT(starts.size(), 8u);
  EXPECT_LT(*starts.rbegin(), 2 * length);
}

TEST(TokenLoader, OrderDependsOnTheSeedAlone) {
  const auto loader = loader_of(5000, 0.0, {.batch_size = 1, .sequence_len = 16, .seed = 1});
  const auto again = loader_of(5000, 0.0, {.batch_size = 4, .sequence_len = 16, .seed = 1});
  const auto other = loader_of(5000, 0.0, {.batch_size = 1, .sequence_len = 16, .seed = 2});
  int64_t different = 0;
  for (int64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(loader->window_begin(i), again->window_begin(i));
    different += loader->window_begin(i) != other->window_begin(i);
  }
  EXPECT_GT(different, 480);
  // Fixed by what a checkpoint means: these numbers must not change between versions.
  EXPECT_EQ(
      (std::vector<int64_t>{loader->window_begin(0), loader->window_begin(1), loader->window_begin(311)}),
      (std::vector<int64_t>{4004, 3364, 1171}));
}

TEST(TokenLoader, ValidationCountsEveryTargetOnce) {
  for (const int64_t val : {9, 10, 16, 17, 50, 81, 82}) {
    const TokenDataset data = TokenDataset::separate(counting_store(100), counting_store(val));
    const TokenLoader loader(data, {.batch_size = 2, .sequence_len = 8, .seed = 1});
    std::map<int32_t, int> counted;
    int64_t total = 0;
    for (int64_t i = 0; i < loader.eval_batches(); ++i) {
      Batch batch;
      loader.fill_eval(i, batch);
      ASSERT_EQ(batch.tokens.size(), 16u);
      int64_t here = 0;
      for (size_t at = 0; at < 16; ++at) {
        if (batch.targets[at] == kIgnoredTarget) continue;
        EXPECT_EQ(batch.targets[at], batch.tokens[at] + 1);
        ++counted[batch.targets[at]];
        ++here;
      }
      EXPECT_EQ(batch.target_count, here);
      EXPECT_GT(here, 0);
      total += here;
    }
    EXPECT_EQ(total, val - 1);
    EXPECT_EQ(static_cast<int64_t>(counted.size()), val - 1);
  }
  EXPECT_EQ(loader_of(100, 0.0, {.batch_size = 2, .sequence_len = 8, .seed = 1})->eval_batches(), 0);
}

TEST(TokenLoader, WithoutShuffleEachEpochIsTheCorpusInOrder) {
  const auto loader =
      loader_of(8 * 5 + 4, 0.0, {.batch_size = 2, .sequence_len = 8, .seed = 1, .shuffle = false});
  ASSERT_EQ(loader->samples_per_epoch(), 5);
  for (int64_t sample = 0; sample < 15; ++sample) EXPECT_EQ(loader->window_begin(sample), sample % 5 * 8);
}

TEST(TokenLoader, WithoutShuffleASourceGoesOnWhereItStood) {
  const auto loader = loader_of(100, 0.0, {.batch_size = 2, .sequence_len = 8, .seed = 1, .shuffle = false});
  const auto whole = make_batch_source(loader, 1), resumed = make_batch_source(loader, 1);
  for (int step = 0; step < 9; ++step) whole->next();
  resumed->seek_samples(whole->samples_seen());
  EXPECT_EQ(resumed->next()[0].tokens, whole->next()[0].tokens);
}

TEST(ValFraction, TheSmallestThatLeavesEnoughForBoth) {
  const auto smallest = [](std::vector<int64_t> sizes, int64_t needed) {
    return smallest_val_fraction(sizes, needed);
  };
  EXPECT_EQ(smallest({80}, 9), 0.11);
  EXPECT_EQ(smallest({1000, 200}, 16), 0.076);
  EXPECT_EQ(smallest({1000000}, 65), 0.0001);
  EXPECT_EQ(smallest({20}, 10), 0.46);
  EXPECT_EQ(smallest({19}, 10), std::nullopt);
}

TEST(TokenLoader, TheShortestCorpusWorksAndAShorterOneIsAnError) {
  const auto loader = loader_of(9, 0.0, {.batch_size = 2, .sequence_len = 8, .seed = 1});
  EXPECT_EQ(loader->samples_per_epoch(), 1);
  EXPECT_EQ(loader->window_begin(0), 0);
  EXPECT_EQ(loader->window_begin(7), 0);
  EXPECT_EQ(
      input_error([] { loader_of(8, 0.0, {.batch_size = 2, .sequence_len = 8, .seed = 1}); }),
      "the training data has 8 tokens, but a sequence of 8 needs 9; give more data or a shorter sequence");
  EXPECT_EQ(input_error([] { loader_of(80, 0.05, {.batch_size = 2, .sequence_len = 8, .seed = 1}); }),
            "the last 4 of 80 tokens validate, but a sequence of 8 (train.sequence_len) needs 9: write "
            "data.val_fraction: 0.11 or more, or data.val_fraction: 0 to train without validation");
}

void expect_equal(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens);
    EXPECT_EQ(a[i].targets, b[i].targets);
    EXPECT_EQ(a[i].target_count, b[i].target_count);
  }
}

TEST(BatchSource, PrefetchEqualsDirect) {
  const auto loader = loader_of(700, 0.0, {.batch_size = 2, .sequence_len = 8, .seed = 9});
  const auto direct = make_batch_source(loader, 3, false), prefetch = make_batch_source(loader, 3, true);
  for (int step = 0; step < 50; ++step) {
    EXPECT_EQ(prefetch->samples_seen(), step * 6);
    EXPECT_EQ(direct->samples_seen(), step * 6);
    expect_equal(prefetch->next(), direct->next());
  }
}

TEST(BatchSource, SeekGoesOnAsIfNeverStopped) {
  const auto loader = loader_of(700, 0.0, {.batch_size = 2, .sequence_len = 8, .seed = 9});
  const auto whole = make_batch_source(loader, 3);
  std::vector<std::vector<Batch>> steps;
  for (int step = 0; step < 40; ++step) steps.push_back(whole->next());
  for (const bool prefetch : {false, true}) {
    const auto resumed =
        make_batch_source(loader_of(700, 0.0, {.batch_size = 2, .sequence_len = 8, .seed = 9}), 3, prefetch);
    for (const int64_t from : {37, 0, 5, 5, 20}) {
      resumed->seek(from);
      for (int64_t step = from; step < from + 3; ++step)
        expect_equal(resumed->next(), steps[static_cast<size_t>(step)]);
      EXPECT_EQ(resumed->samples_seen(), (from + 3) * 6);
    }
    resumed->seek_samples(12);
    expect_equal(resumed->next(), steps[2]);
  }
}

// Counts what is asked of it, and fails for one sample as long as it is told to.
class FlakyLoader final : public BatchLoader {
 public:
  std::atomic<bool> fails = true;
  void fill_train(int64_t first_sample, Batch& out) const override {
    if (first_sample == 4 && fails) throw InputError("sample 4 is bad");
    out.tokens = {static_cast<int32_t>(first_sample)};
    out.target_count = 1;
  }
  void fill_eval(int64_t, Batch&) const override {}
  int64_t eval_batches() const override { return 0; }
  int64_t samples_per_epoch() const override { return 100; }
  int64_t batch_size() const override { return 1; }
};

TEST(BatchSource, RethrowsAndCanGoOn) {
  for (const bool prefetch : {false, true}) {
    const auto loader = std::make_shared<FlakyLoader>();
    const auto source = make_batch_source(loader, 2, prefetch);
    EXPECT_EQ(source->next()[1].tokens, (Ids{1}));
    EXPECT_EQ(source->next()[1].tokens, (Ids{3}));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(input_error([&] { source->next(); }), "sample 4 is bad");
    EXPECT_EQ(source->samples_seen(), 4);
    loader->fails = false;
    EXPECT_EQ(source->next()[0].tokens, (Ids{4}));
  }
}

TEST(BatchSource, EndsCleanlyAtAnyMoment) {
  const auto loader = loader_of(70000, 0.0, {.batch_size = 4, .sequence_len = 64, .seed = 9});
  for (int i = 0; i < 100; ++i) {
    const auto source = make_batch_source(loader, 8);
    if (i % 3 == 1) source->next();
    if (i % 3 == 2) source->seek(i);
  }
  EXPECT_THROW(make_batch_source(loader, 0), std::invalid_argument);
}

}  // namespace
}  // namespace hydrac::runtime
