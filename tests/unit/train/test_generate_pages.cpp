// Generation over a cache in pages gives the texts of one in which every text has room, also where the pool
// is so small that texts are put back and begin again.
#include <gtest/gtest.h>

#include <csignal>

#include "cached_program.h"
#include "runtime/log/signal.h"
#include "runtime/train/generation/cache_pages.h"

namespace hydrac::runtime {
namespace {

struct PagesCase {
  const char* name;
  SampleOptions sampling;
  int64_t max_new_tokens = 20;
  int64_t top = kTop;
  int64_t steps_in_flight = 2;
  bool knows_sums = true;
};

class GeneratePages : public testing::TestWithParam<PagesCase> {
 protected:
  Texts texts_with(int64_t pages, const GenerateOptions& options,
                   const Tokenizer& tokenizer = *make_byte_tokenizer()) {
    CachedProgram program(GetParam().steps_in_flight, pages);
    program.top = GetParam().top;
    program.knows_sums = GetParam().knows_sums;
    return texts_of(program, options, tokenizer);
  }
  const GenerateOptions options_{"", GetParam().max_new_tokens, {}, GetParam().sampling};
};

// A text has up to 3 + 20 tokens: six pages of four.
TEST_P(GeneratePages, GiveTheSameTextsHoweverFewThereAre) {
  const Texts expected = texts_with(0, options_);
  EXPECT_EQ(expected.counts.pages, 0);
  for (const int64_t pages : {30, 12, 9, 7, 6}) {
    const Texts found = texts_with(pages, options_);
    EXPECT_EQ(found, expected) << pages << " pages";
    EXPECT_EQ(found.counts.pages, pages);
    EXPECT_LE(found.counts.most_pages, pages);
    EXPECT_EQ(found.counts.new_tokens, expected.counts.new_tokens);
    EXPECT_EQ(found.counts.prompt_tokens, expected.counts.prompt_tokens);
    EXPECT_EQ(found.counts.texts_put_back > 0, pages < 18) << pages << " pages";
    if (pages >= 18) {
      EXPECT_EQ(found.counts.decode_steps, expected.counts.decode_steps);
    }
  }
}

TEST_P(GeneratePages, EndTextsAsTheirOwnTokensDo) {
  const EarlyEnds early(options_, texts_with(0, options_));
  const Texts expected = texts_with(0, early.options, early.tokenizer);
  EXPECT_EQ(expected.ends[1], TextEnd::end_of_text);
  EXPECT_EQ(texts_with(7, early.options, early.tokenizer), expected);
}

TEST_P(GeneratePages, ThatDoNotHoldOneTextAreTheCallersMistake) {
  EXPECT_THROW(texts_with(5, options_), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(
    Samplings, GeneratePages,
    testing::Values(PagesCase{"greedy", {.temperature = 0}}, PagesCase{"temperature", {.temperature = 0.7}},
                    PagesCase{"undecidedRows", {.temperature = 0.7}, 20, kTop, 2, false},
                    PagesCase{"oneStepAtATime", {.temperature = 0.7}, 20, kTop, 1},
                    PagesCase{"likeliestThree", {.temperature = 1, .top_k = 3}},
                    PagesCase{"wholeRows", {.temperature = 1, .repetition_penalty = 1.1}},
                    PagesCase{"noLargestLogits", {.temperature = 1}, 20, 0}),
    [](const auto& info) { return info.param.name; });

// Past the context of 40 tokens they have no pages, for they are computed whole.
TEST(GeneratePagesToTheEnd, AndPastTheContext) {
  const GenerateOptions options{"", 60, {}, {.temperature = 0.7}};
  CachedProgram whole(2), paged(2, 10);
  whole.prompt_tokens = paged.prompt_tokens = kContext;
  const Texts expected = texts_of(whole, options), found = texts_of(paged, options);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.ends[0], TextEnd::length);
  EXPECT_GT(found.counts.texts_put_back, 0);
}

TEST(GeneratePagesToTheEnd, ASignalEndsTextsThatArePutBackTooAsFarAsTheyAre) {
  const GenerateOptions options{"", 20, {}, {.temperature = 0.7}};
  CachedProgram whole(2), paged(2, 7);
  const Texts expected = texts_of(whole, options);
  const std::vector<TextRequest> requests = some_requests();
  std::vector<Reply> replies(requests.size());
  TextEvents events;
  size_t pieces = 0;
  events.on_text = [&](size_t, std::string_view) {
    if (++pieces == 35) std::raise(SIGINT);
  };
  events.on_end = [&](size_t request, const Reply& reply) { replies[request] = reply; };
  install_stop_handlers();
  const GenerateCounts counts = generate_batch(paged, *make_byte_tokenizer(), requests, options, events);
  install_stop_handlers();
  EXPECT_GT(counts.texts_put_back, 0);
  EXPECT_LT(counts.new_tokens, expected.counts.new_tokens);
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_LE(replies[i].ids.size(), expected.ids[i].size());
    EXPECT_TRUE(std::ranges::equal(replies[i].ids, std::span(expected.ids[i]).first(replies[i].ids.size())));
    if (replies[i].ids.size() < expected.ids[i].size()) {
      EXPECT_EQ(replies[i].end, TextEnd::interrupted);
    }
  }
}

// Past the context, which prefill() does not take here, they end; until then each has all pages.
TEST(GeneratePagesToTheEnd, OfTheContext) {
  const GenerateOptions options{"", 60, {}, {.temperature = 0}};
  CachedProgram whole(2), paged(2, 10);
  const Texts expected = texts_of(whole, options), found = texts_of(paged, options);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.ends[0], TextEnd::context);
  EXPECT_EQ(found.counts.most_pages, 10);
  EXPECT_GT(found.counts.texts_put_back, 0);
}

TEST(CachePages, AreGivenAndTakenBack) {
  CacheShape cache;
  cache.sequences = 2;
  cache.pages = 5;
  cache.page_tokens = 4;
  cache.pages_of_sequence = 4;
  CachePages pages(cache);
  EXPECT_EQ(std::vector<int32_t>(pages.table().begin(), pages.table().end()), std::vector<int32_t>(8, -1));
  EXPECT_TRUE(pages.grow(0, 5));
  EXPECT_TRUE(pages.grow(0, 8)) << "it has them";
  EXPECT_FALSE(pages.grow(1, 16));
  EXPECT_EQ(pages.table()[4], -1) << "nothing is given where not all can be";
  EXPECT_TRUE(pages.grow(1, 12));
  EXPECT_FALSE(pages.grow(0, 9));
  EXPECT_EQ(pages.most_used(), 5);
  pages.release(1);
  EXPECT_TRUE(pages.grow(0, 100)) << "a context is the most that it needs";
  EXPECT_EQ(pages.most_used(), 5);
  std::vector<int32_t> own(pages.table().begin(), pages.table().begin() + 4);
  std::ranges::sort(own);
  EXPECT_EQ(std::ranges::adjacent_find(own), own.end());
  EXPECT_GE(own[0], 0);
}

TEST(CachePages, OfACacheWithoutPagesAreNeverShort) {
  CacheShape cache;
  cache.sequences = 2;
  CachePages pages(cache);
  EXPECT_TRUE(pages.grow(1, 1 << 20));
  EXPECT_TRUE(pages.table().empty());
  EXPECT_EQ(pages.most_used(), 0);
  pages.release(1);
}

}  // namespace
}  // namespace hydrac::runtime
