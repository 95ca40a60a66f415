// Which prompts are answered, where replies lie, and what each adds to its set.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "fake_program.h"
#include "runtime/data/tokenizer.h"
#include "runtime/train/generation/sampled_replies.h"
#include "runtime/train/objective.h"

namespace hydrac::runtime {
namespace {

constexpr int32_t kNone = kIgnoredTarget;

// Two rows of 6: items of prompts {1, 2} and {5}, then nothing; an item of prompt {7, 8, 9}.
Batch two_rows() {
  Batch batch;
  batch.tokens = {1, 2, 3, 5, 6, 0, 7, 8, 9, 10, 11, 12};
  batch.targets = {kNone, 3, 4, 6, 7, kNone, kNone, kNone, 10, 11, kNone, 13};
  batch.documents = {0, 3, 0, 3, 0, 3, 3, 5, 3, 5, 5, 6, 0, 6, 0, 6, 0, 6, 0, 6, 0, 6, 0, 6};
  return batch;
}

TEST(DrawPrompts, TakesWhatStandsBeforeTheFirstReplyOfEachItem) {
  const auto prompts = draw_prompts({two_rows()}, 6, 10, 1);
  const std::set<std::vector<int32_t>> found(prompts.begin(), prompts.end());
  EXPECT_EQ(prompts.size(), 3u);
  EXPECT_EQ(found, (std::set<std::vector<int32_t>>{{1, 2}, {5}, {7, 8, 9}}));
}

TEST(DrawPrompts, DrawsAllItemsAboutAsOften) {
  std::map<std::vector<int32_t>, int> times;
  for (uint64_t key = 0; key < 3000; ++key) ++times[draw_prompts({two_rows()}, 6, 1, key).at(0)];
  ASSERT_EQ(times.size(), 3u);
  for (const auto& [prompt, count] : times) EXPECT_NEAR(count, 1000, 120);
}

TEST(DrawPrompts, FindsNoneWhereNothingIsLearned) {
  Batch batch = two_rows();
  std::ranges::fill(batch.targets, kNone);
  EXPECT_TRUE(draw_prompts({batch}, 6, 4, 1).empty());
}

TEST(ReplyBatches, PutEachReplyAtAPlaceOfItsOwn) {
  const ReplyPlaces places{.rows = 2, .tokens = 7, .longest = 3, .batches = 2};
  const std::vector<SampledReply> replies = {{1, {10}, {11, 12}}, {2, {20, 21}, {22}}, {4, {40}, {41}}};
  const std::vector<Batch> batches = reply_batches(replies, places);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].tokens, (std::vector<int32_t>{0, 0, 0, 10, 11, 12, 0, 20, 21, 22, 0, 0, 0, 0}));
  EXPECT_EQ(batches[0].targets, (std::vector<int32_t>{kNone, kNone, kNone, 11, 12, kNone, kNone, kNone, 22,
                                                      kNone, kNone, kNone, kNone, kNone}));
  EXPECT_EQ(batches[0].segments, (std::vector<int32_t>{-1, -1, -1, -1, 1, 1, -1, -1, -1, 2, -1, -1, -1, -1}));
  EXPECT_EQ(batches[0].positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(batches[0].documents[2 * 4], 3);
  EXPECT_EQ(batches[0].documents[2 * 4 + 1], 6);
  EXPECT_EQ(batches[0].target_count, 3);
  EXPECT_EQ(batches[1].segments[1], 4);
  EXPECT_EQ(batches[1].documents[2 * 2], 2);  // what the reply left of its place sees nothing of it
  const std::vector<ReplyTargets> targets = targets_of(replies, places);
  for (size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(targets[i].count, replies[i].reply.size());
    EXPECT_EQ(batches[targets[i].batch].targets[targets[i].first], replies[i].reply[0]);
  }
}

// Of distances 0.2, 0.4 and 0.9 of the pairs (0,1), (0,2) and (1,2).
TEST(LeaveOneOut, IsWhatTheSetIsMoreDiverseWithAReply) {
  const std::vector<float> of_each = {0.3f, 0.55f, 0.65f};
  const std::vector<double> adds = leave_one_out(of_each);
  EXPECT_NEAR(adds[0], 0.5 - 0.9, 1e-6);
  EXPECT_NEAR(adds[1], 0.5 - 0.4, 1e-6);
  EXPECT_NEAR(adds[2], 0.5 - 0.2, 1e-6);
}

TEST(LeaveOneOut, OfTwoRepliesEachAddsAll) {
  const std::vector<float> of_each = {0.25f, 0.25f};
  EXPECT_EQ(leave_one_out(of_each), (std::vector<double>{0.25, 0.25}));
}

ObjectiveSettings settings_of_two() {
  ObjectiveSettings settings{
      .prompts = 2, .replies = 2, .weight = 0.5, .prompt_tokens = 3, .max_new_tokens = 3, .sequence_len = 6};
  settings.sampling.seed = 11;
  return settings;
}

TEST(ReplyObjective, IsAFunctionOfSeedStepAndData) {
  const auto tokenizer = make_byte_tokenizer();
  const auto diversity = [&](uint64_t seed, int64_t step) {
    FakeProgram program;
    program.initialize();
    ObjectiveSettings settings = settings_of_two();
    settings.sampling.seed = seed;
    return ReplyObjective(program, *tokenizer, settings).begin_step(step, {two_rows()})->diversity;
  };
  EXPECT_EQ(diversity(11, 1), diversity(11, 1));
  EXPECT_NE(diversity(11, 1), diversity(11, 2));
  EXPECT_NE(diversity(11, 1), diversity(12, 1));
}

TEST(ReplyObjective, TakesItsMicroStepsAlsoWhereThereIsNoPrompt) {
  const auto tokenizer = make_byte_tokenizer();
  const ObjectiveSettings settings = settings_of_two();
  Batch batch = two_rows();
  std::ranges::fill(batch.targets, kNone);
  FakeProgram program;
  program.initialize();
  EXPECT_FALSE(ReplyObjective(program, *tokenizer, settings).begin_step(1, {batch}).has_value());
  EXPECT_EQ(program.inv_counts.size(), 2u);
}

}  // namespace
}  // namespace hydrac::runtime
