// Several sources in one order, and the batches and validation sets that they make.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "data_test.h"
#include "runtime/data/corpus.h"
#include "runtime/data/mixed_loader.h"
#include "runtime/text/text_corpus.h"

namespace hydrac::runtime {
namespace {

std::vector<int64_t> counted(const MixOrder& order, int64_t begin, int64_t end, size_t sources) {
  std::vector<int64_t> counts(sources);
  for (int64_t sample = begin; sample < end; ++sample) ++counts[order.of(sample).source];
  return counts;
}

TEST(MixOrder, EachBlockHasTheSharesInRandomOrder) {
  const MixOrder order({{.weight = 3}, {.weight = 1}, {.weight = 0.001}}, 5);
  EXPECT_EQ(counted(order, 0, MixOrder::kBlock, 3), (std::vector<int64_t>{767, 256, 1}));
  EXPECT_EQ(counted(order, 7 * MixOrder::kBlock, 8 * MixOrder::kBlock, 3),
            (std::vector<int64_t>{767, 256, 1}));
  const std::vector<int64_t> first = counted(order, 0, 128, 3);
  EXPECT_NEAR(first[0], 96, 20);
  std::set<std::vector<size_t>> orders;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const MixOrder other({{.weight = 1}, {.weight = 1}}, seed);
    for (int64_t block = 0; block < 2; ++block) {
      std::vector<size_t> sources;
      for (int64_t i = 0; i < 64; ++i) sources.push_back(other.of(block * MixOrder::kBlock + i).source);
      orders.insert(sources);
    }
  }
  EXPECT_EQ(orders.size(), 8u);
}

TEST(MixOrder, ASourcesSamplesComeInTheirOrderWhicheverIsAskedForFirst) {
  const std::vector<MixShare> shares = {{.weight = 2, .most = 900}, {.weight = 5}, {.weight = 1, .most = 60}};
  const MixOrder order(shares, 9), backwards(shares, 9);
  std::vector<int64_t> next(3);
  std::vector<MixOrder::Place> places;
  for (int64_t sample = 0; sample < 6000; ++sample) {
    EXPECT_EQ(order.drawn(sample), next);
    const MixOrder::Place place = order.of(sample);
    ASSERT_EQ(place.sample, next[place.source]++) << sample;
    places.push_back(place);
  }
  for (int64_t sample = 5999; sample >= 0; sample -= 7) {
    const MixOrder::Place place = backwards.of(sample);
    EXPECT_EQ(place.source, places[static_cast<size_t>(sample)].source);
    EXPECT_EQ(place.sample, places[static_cast<size_t>(sample)].sample);
  }
  EXPECT_EQ(next[0], 900);
  EXPECT_EQ(next[2], 60);
  EXPECT_EQ(order.size(), std::numeric_limits<int64_t>::max());
}

TEST(MixOrder, EndsWhenAllSourcesHaveGivenWhatTheyMay) {
  const MixOrder order({{.weight = 1, .most = 5000}, {.weight = 4, .most = 700}, {.weight = 4, .most = 1}},
                       2);
  ASSERT_EQ(order.size(), 5701);
  EXPECT_EQ(counted(order, 0, 5701, 3), (std::vector<int64_t>{5000, 700, 1}));
  EXPECT_EQ(counted(order, 4000, 5701, 3), (std::vector<int64_t>{1701, 0, 0}));
}

// Words of one letter each, so that a row says which source it is of.
class MixedTexts : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* letter : {"a", "b", "c"}) {
      std::string text;
      for (int i = 0; i < 400; ++i) text += letter;
      folder_.write(std::string(letter) + ".txt", text);
    }
    settings_.tokenizer = "byte";
    settings_.batch_size = 4;
    settings_.sequence_len = 8;
    settings_.seed = 3;
  }
  std::vector<std::string> path(const std::string& letter) const {
    return {(folder_.path() / (letter + ".txt")).string()};
  }
  // The letters of the rows of samples [0, count).
  std::string rows(const Corpus& corpus, int64_t count) const {
    std::string letters;
    Batch batch;
    for (int64_t sample = 0; sample < count; sample += settings_.batch_size) {
      corpus.loader->fill_train(sample, batch);
      for (size_t row = 0; row < 4; ++row) letters += static_cast<char>(batch.tokens[row * 8]);
      EXPECT_EQ(batch.target_count, 32);
    }
    return letters;
  }

  TempFolder folder_;
  DataSettings settings_;
};

TEST_F(MixedTexts, RowsOfABatchAreOfSeveralSources) {
  settings_.mix = {{"first", path("a"), 3, 0}, {"second", path("b"), 1, 2}};
  const Corpus corpus = open_text(settings_, true);
  const std::string letters = rows(corpus, 1024);
  const auto seconds = std::ranges::count(letters, 'b');
  const int64_t twice = 2 * ((400 - 1 - 7 - 8) / 8 + 1);
  EXPECT_EQ(seconds, twice) << "its two epochs";
  EXPECT_EQ(std::ranges::count(letters, 'a'), 1024 - seconds);
  EXPECT_EQ(rows(corpus, 1024), letters);
  const std::vector<SourceUse> uses = corpus.loader->uses(1024);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[1].name, "second");
  EXPECT_EQ(uses[1].tokens, 8 * seconds);
  EXPECT_DOUBLE_EQ(uses[1].epochs, 2);
  settings_.seed = 4;
  EXPECT_NE(rows(open_text(settings_, true), 1024), letters);
}

TEST_F(MixedTexts, SourcesValidateByTheirNamesOrSetsDo) {
  settings_.mix = {{"first", path("a"), 1, 0}, {"second", path("b"), 1, 0}};
  settings_.val_fraction = 0.25;
  const auto sets_of = [](const Corpus& corpus) {
    std::string text;
    Batch batch;
    for (const EvalSet& set : corpus.loader->eval_sets()) {
      corpus.loader->fill_eval(set.first + set.batches - 1, batch);
      text += set.name + " " + std::to_string(set.batches) + static_cast<char>(batch.tokens[0]) + ";";
    }
    return text;
  };
  const Corpus own = open_text(settings_, true);
  EXPECT_EQ(sets_of(own), "first 4a;second 4b;");
  EXPECT_EQ(own.loader->eval_batches(), 8);
  EXPECT_FALSE(own.identity.val);
  settings_.val = {{"third", path("c")}, {"one", path("a")}};
  const Corpus named = open_text(settings_, true);
  EXPECT_EQ(sets_of(named), "third 13c;one 13a;");
  EXPECT_TRUE(named.identity.val);
  settings_.val.clear();
  settings_.val_path = path("c");
  EXPECT_EQ(sets_of(open_text(settings_, true)), " 13c;");
}

TEST_F(MixedTexts, SetsAloneChangeNoTrainingBatch) {
  settings_.path = path("a");
  settings_.curriculum = {.steps = 2, .start = 0.5, .samples_per_step = 4};
  const Corpus plain = open_text(settings_, true);
  settings_.val = {{"set", path("b")}};
  const Corpus with_set = open_text(settings_, true);
  Batch one, other;
  for (int64_t sample = 0; sample < 3000; sample += 4) {
    plain.loader->fill_train(sample, one);
    with_set.loader->fill_train(sample, other);
    ASSERT_EQ(one.tokens, other.tokens);
    ASSERT_EQ(one.stage.curriculum_share, other.stage.curriculum_share);
  }
  EXPECT_TRUE(with_set.loader->uses(100).empty());
}

TEST_F(MixedTexts, ErrorsNameTheSource) {
  folder_.write("short.txt", "abc");
  settings_.mix = {{"first", path("a"), 1, 0}, {"second", path("short"), 1, 0}};
  EXPECT_EQ(input_error([&] { open_text(settings_, true); }),
            "data.mix.second: the training data has 3 tokens, but a sequence of 8 needs 9; give more data or "
            "a shorter "
            "sequence");
  settings_.mix.pop_back();
  settings_.val = {{"set", path("short")}};
  EXPECT_TRUE(input_error([&] {
                open_text(settings_, true);
              }).starts_with("data.val.set: the validation data has 3 tokens, but a sequence of 8 needs 9"));
  settings_.val = {{"set", path("none")}};
  const std::string message = input_error([&] { open_text(settings_, true); });
  EXPECT_TRUE(message.starts_with("data.val.set: ")) << message;
}

}  // namespace
}  // namespace hydrac::runtime
