// Easier sequences first: the share of each step, what is drawn from it, and what counts as easy.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "data_test.h"
#include "runtime/data/difficulty.h"
#include "runtime/data/item_loader.h"
#include "runtime/data/token_loader.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;

TEST(Curriculum, SharesGrowWithTheSquareRootOfTheSteps) {
  const Curriculum curriculum{.steps = 4, .start = 0.5, .samples_per_step = 3};
  for (int64_t sample = 0; sample < 12; ++sample) {
    ASSERT_TRUE(curriculum.draws(sample));
    const auto step = static_cast<double>(sample / 3);
    EXPECT_DOUBLE_EQ(curriculum.share(sample), std::sqrt(step * (1 - 0.25) / 4 + 0.25)) << sample;
  }
  EXPECT_EQ(curriculum.share(2), 0.5);
  EXPECT_LT(curriculum.share(11), 1);
  EXPECT_FALSE(curriculum.draws(12));
  EXPECT_FALSE(Curriculum().draws(0));
  const Curriculum whole{.steps = 4, .start = 1, .samples_per_step = 1};
  for (int64_t sample = 0; sample < 4; ++sample) EXPECT_EQ(whole.share(sample), 1);
}

TEST(Curriculum, DrawsEvenlyFromTheFirstShareWithReplacement) {
  const Curriculum curriculum{.steps = 1000, .start = 0.1, .samples_per_step = 8};
  std::vector<int> draws(20);
  std::set<int64_t> of_other_seeds;
  for (int64_t sample = 0; sample < curriculum.samples(); ++sample) {
    const int64_t index = curriculum.draw(sample, 20, 5);
    ASSERT_LT(index, static_cast<int64_t>(std::ceil(20 * curriculum.share(sample)))) << sample;
    ASSERT_GE(index, 0);
    EXPECT_TRUE(sample >= 8 || index < 2) << "the first step";
    EXPECT_EQ(curriculum.draw(sample, 20, 5), index);
    ++draws[static_cast<size_t>(index)];
  }
  // The first two are always among those that may be drawn, the last one hardly ever.
  EXPECT_NEAR(draws[0], draws[1], 120);
  EXPECT_GT(draws[1], 4 * draws[19]);
  EXPECT_GT(draws[19], 0);
  for (uint64_t seed = 0; seed < 20; ++seed) of_other_seeds.insert(curriculum.draw(7000, 20, seed));
  EXPECT_GT(of_other_seeds.size(), 5u);
}

TEST(Curriculum, DrawsFromOneSequenceAtLeast) {
  const Curriculum curriculum{.steps = 10, .start = 1e-9, .samples_per_step = 1};
  EXPECT_EQ(curriculum.draw(0, 3, 1), 0);
  for (int64_t sample = 0; sample < 10; ++sample) EXPECT_EQ(curriculum.draw(sample, 1, 1), 0);
}

// Tokens 0, 1, 2, ...: a token is its own position.
std::shared_ptr<const TokenLoader> counting_loader(int64_t batch_size, const Curriculum& curriculum) {
  const auto ids = std::make_shared<std::vector<uint32_t>>(2000);
  std::iota(ids->begin(), ids->end(), 0u);
  const auto store = std::make_shared<TokenStore>(
      std::vector<TokenStore::Segment>{{ids, ids->data(), 4, 2000, "ids"}}, 2000);
  return std::make_shared<TokenLoader>(
      TokenDataset::split(store, 0.1),
      TokenLoaderOptions{.batch_size = batch_size, .sequence_len = 8, .seed = 7, .curriculum = curriculum});
}

TEST(TokenLoader, ACurriculumDrawsWindowsFromTheBeginningAndEpochsComeBehindIt) {
  const Curriculum curriculum{.steps = 50, .start = 0.05, .samples_per_step = 4};
  const auto loader = counting_loader(2, curriculum), plain = counting_loader(2, {});
  const int64_t windows = loader->samples_per_epoch();
  EXPECT_EQ(windows, plain->samples_per_epoch());
  std::set<int64_t> cuts;
  for (int64_t sample = 0; sample < 200; ++sample) {
    const double reach = std::ceil(curriculum.share(sample) * static_cast<double>(windows));
    const int64_t begin = loader->window_begin(sample);
    EXPECT_LT(begin, 8 * (static_cast<int64_t>(reach) + 1));
    cuts.insert(begin % 8);
  }
  EXPECT_EQ(cuts.size(), 8u) << "windows are cut at all places";
  for (int64_t sample = 0; sample < 2 * windows; ++sample)
    EXPECT_EQ(loader->window_begin(200 + sample), plain->window_begin(sample));
  Batch batch;
  loader->fill_train(4, batch);
  EXPECT_DOUBLE_EQ(batch.stage.curriculum_share, curriculum.share(4));
  loader->fill_train(200, batch);
  EXPECT_EQ(batch.stage.curriculum_share, 0);
  loader->fill_eval(0, batch);
  Batch other;
  plain->fill_eval(0, other);
  EXPECT_EQ(batch.tokens, other.tokens);
}

// The micro-batches of a step are the same rows however many ranks and accumulated ones share them.
TEST(TokenLoader, ACurriculumDependsOnTheSamplesNumberAlone) {
  const Curriculum curriculum{.steps = 6, .start = 0.1, .samples_per_step = 12};
  const auto by_four = make_batch_source(counting_loader(4, curriculum), 3),
             by_two = make_batch_source(counting_loader(2, curriculum), 6, false);
  const auto rows = [](const std::vector<Batch>& step) {
    Ids all;
    for (const Batch& batch : step) all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
    return all;
  };
  std::vector<Ids> steps;
  for (int step = 0; step < 9; ++step) {
    steps.push_back(rows(by_four->next()));
    EXPECT_EQ(rows(by_two->next()), steps.back());
  }
  const auto resumed = make_batch_source(counting_loader(4, curriculum), 3);
  resumed->seek_samples(4 * 12);
  for (size_t step = 4; step < 9; ++step) EXPECT_EQ(rows(resumed->next()), steps[step]);
}

// Items of these tokens.
std::shared_ptr<const ItemStore> item_store(const std::vector<std::vector<uint32_t>>& items) {
  auto tokens = std::make_shared<std::vector<MarkedToken>>();
  for (const auto& item : items)
    for (size_t i = 0; i < item.size(); ++i)
      tokens->push_back({item[i] | (i == 0 ? MarkedToken::kBegins : 0)});
  return std::make_shared<ItemStore>(tokens, std::span<const MarkedToken>(*tokens), 1000, "items");
}

std::vector<std::vector<int64_t>> packed(const std::shared_ptr<const ItemStore>& store, int64_t length,
                                         std::optional<CurriculumOrder> order, bool cut = false) {
  const PackedItems items({store, 0, store->size()}, length, cut, order);
  std::vector<std::vector<int64_t>> all;
  for (int64_t i = 0; i < items.sequences(); ++i)
    all.emplace_back(items.items_of(i).begin(), items.items_of(i).end());
  return all;
}

using Sequences = std::vector<std::vector<int64_t>>;

TEST(PackedItems, GoByLengthInTheOrderOfDifficulty) {
  const std::vector<uint32_t> three = {1, 2, 3}, five = {1, 2, 3, 4, 5}, two = {1, 2}, nine(9, 4);
  const auto store = item_store({five, three, two, nine, three, five});
  EXPECT_EQ(packed(store, 6, std::nullopt), (Sequences{{0, 1}, {2, 4}, {5}}));
  EXPECT_EQ(packed(store, 6, CurriculumOrder::file), (Sequences{{0, 1}, {2, 4}, {5}}));
  EXPECT_EQ(packed(store, 6, CurriculumOrder::length), (Sequences{{2, 1, 4}, {0}, {5}}));
  EXPECT_EQ(packed(store, 6, CurriculumOrder::length, true), (Sequences{{2, 1, 4}, {0}, {5}, {3}}));
}

TEST(PackedItems, GoByTheRarityOfTheirTokens) {
  // Of twelve tokens six are 1, four 2, two 3; in nats 0.69, 1.10, 1.79 each.
  const auto store = item_store({{3, 3, 2}, {1, 2, 2}, {1, 1, 1}, {2, 1, 1}});
  EXPECT_EQ(packed(store, 2, CurriculumOrder::rarity), (Sequences{{2}, {3}, {1}, {0}}));
}

// A short item that comes late does not go to a sequence that began long before.
TEST(PackedItems, OfAnOrderStayNextToTheirLike) {
  std::vector<std::vector<uint32_t>> items(40, {1, 2, 3, 4});
  items.push_back({1, 2});
  const auto store = item_store(items);
  EXPECT_EQ(packed(store, 4, std::nullopt)[0], (std::vector<int64_t>{0, 40}));
  const Sequences ordered = packed(store, 4, CurriculumOrder::file);
  ASSERT_EQ(ordered.size(), 40u);
  const auto holder =
      std::ranges::find_if(ordered, [](const auto& sequence) { return sequence.back() == 40; });
  EXPECT_GE(holder - ordered.begin(), 40 - static_cast<int64_t>(PackedItems::kOpenSequences));
}

TEST(ItemLoader, ACurriculumBeginsWithShortItems) {
  std::vector<std::vector<uint32_t>> items;
  for (uint32_t i = 0; i < 60; ++i) items.emplace_back(2 + i * 7 % 15, i);
  const Curriculum curriculum{
      .steps = 20, .start = 0.1, .by = CurriculumOrder::length, .samples_per_step = 2};
  const ItemLoader loader(
      ItemDataset::split(item_store(items), 0),
      {.batch_size = 1, .sequence_len = 16, .seed = 3, .with_documents = true, .curriculum = curriculum});
  Batch batch;
  std::vector<int64_t> longest;
  for (int64_t sample = 0; sample < 40; ++sample) {
    loader.fill_train(sample, batch);
    EXPECT_DOUBLE_EQ(batch.stage.curriculum_share, curriculum.share(sample));
    int64_t most = 0;
    for (size_t i = 0; i < 16; ++i)
      if (batch.targets[i] != kIgnoredTarget)
        most = std::max<int64_t>(most, batch.documents[2 * i + 1] - batch.documents[2 * i]);
    longest.push_back(most);
  }
  EXPECT_LE(*std::max_element(longest.begin(), longest.begin() + 2), 5);
  EXPECT_GT(*std::ranges::max_element(longest), 10);
  // Behind it all sequences once an epoch.
  std::multiset<int32_t> epoch;
  for (int64_t sample = 0; sample < loader.samples_per_epoch(); ++sample) {
    loader.fill_train(40 + sample, batch);
    EXPECT_EQ(batch.stage.curriculum_share, 0);
    for (const int32_t target : batch.targets)
      if (target != kIgnoredTarget) epoch.insert(target);
  }
  for (int32_t i = 0; i < 60; ++i) EXPECT_EQ(epoch.count(i), static_cast<size_t>(1 + i * 7 % 15));
}

TEST(TokenRarity, IsTheMeanOfMinusLogFrequency) {
  TokenRarity rarity;
  rarity.count(Ids{0, 0, 7});
  rarity.count(Ids{0, 7, 7, 7, 9});
  const double nat = 1 << 20;
  EXPECT_NEAR(rarity.mean(Ids{9}) / nat, std::log(8), 1e-6);
  EXPECT_NEAR(rarity.mean(Ids{0, 7, 7}) / nat, (std::log(8.0 / 3) + 2 * std::log(2)) / 3, 1e-6);
  EXPECT_EQ(rarity.mean(Ids{}), 0);
}

}  // namespace
}  // namespace hydrac::runtime
