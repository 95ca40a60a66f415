// Generation with a cache: a program that takes a step while the one before is not read gives the same texts
// as one that does not.
#include <gtest/gtest.h>

#include "cached_program.h"

namespace hydrac::runtime {
namespace {

struct Case {
  const char* name;
  SampleOptions sampling;
  int64_t max_new_tokens = 20;
  bool knows_sums = true;
  size_t most_unfinished = 2;
};

class GenerateAhead : public testing::TestWithParam<Case> {};

TEST_P(GenerateAhead, GivesTheSameTexts) {
  const GenerateOptions options{"", GetParam().max_new_tokens, {}, GetParam().sampling};
  CachedProgram one(1), two(2);
  one.knows_sums = two.knows_sums = GetParam().knows_sums;
  const Texts expected = texts_of(one, options);
  EXPECT_EQ(texts_of(two, options), expected);
  EXPECT_EQ(two.most_unfinished_steps, GetParam().most_unfinished);
  const EarlyEnds early(options, expected);
  const Texts ended = texts_of(one, early.options, early.tokenizer);
  EXPECT_EQ(ended.ends[1], TextEnd::end_of_text);
  EXPECT_EQ(texts_of(two, early.options, early.tokenizer), ended);
}

INSTANTIATE_TEST_SUITE_P(Samplings, GenerateAhead,
                         testing::Values(Case{"greedy", {.temperature = 0}},
                                         Case{"temperature", {.temperature = 0.7}},
                                         Case{"pastTheContext", {.temperature = 0}, 60},
                                         Case{"undecidedRows", {.temperature = 0.7}, 20, false},
                                         Case{"likeliestThree", {.temperature = 1, .top_k = 3}, 20, true, 1}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hydrac::runtime
