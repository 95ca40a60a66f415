// Ranks that share a step's prompts.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "fake_program.h"
#include "runtime/data/tokenizer.h"
#include "runtime/train/objective.h"
#include "runtime/train/rank_exchange.h"
#include "tests/unit/support/on_ranks.h"

namespace hydrac::runtime {
namespace {

using test::on_ranks;
using test::tell;

TEST(RankExchange, JoinsTextsOfAnyLength) {
  const auto told = on_ranks(3, [](Ranks& ranks, int pipe) {
    const std::string own(static_cast<size_t>(ranks.rank()) * 700'001, static_cast<char>('a' + ranks.rank()));
    const std::string all = joined(&ranks, own);
    const bool is_right =
        all == std::string(700'001, 'b') + std::string(2 * 700'001, 'c') && joined(&ranks, "").empty();
    tell(pipe, is_right ? "right" : "wrong");
  });
  EXPECT_EQ(told, std::vector<std::string>(3, "right"));
}

TEST(RankExchange, TellsAllWhatRank0FindsOrWhyItDoesNot) {
  const auto told = on_ranks(2, [](Ranks& ranks, int pipe) {
    const std::vector<double> found = found_by_rank_0(&ranks, [&] {
      EXPECT_TRUE(ranks.leads());
      return std::vector<double>{0.5, 2};
    });
    std::string problem;
    try {
      found_by_rank_0(&ranks, []() -> std::vector<double> { throw RewardError("no rewards"); });
    } catch (const RewardError& error) {
      problem = error.what();
    }
    tell(pipe, fmt::format("{} of {}, {}", found.at(1), found.size(), problem));
  });
  EXPECT_EQ(told, std::vector<std::string>(2, "2 of 2, no rewards"));
}

std::string result_of(const std::vector<std::vector<int32_t>>& prompts, Ranks* ranks) {
  const auto tokenizer = make_byte_tokenizer();
  ObjectiveSettings settings{
      .prompts = 6, .replies = 2, .weight = 0.5, .prompt_tokens = 3, .max_new_tokens = 3, .sequence_len = 6};
  settings.kl = 0.25;
  settings.reward = {{"sh", "-c", "seq $((2 * $(wc -l)))"}, 300};
  FakeProgram program;
  program.initialize();
  const auto found = ReplyObjective(program, *tokenizer, settings, ranks).answer(3, prompts, 2);
  if (!found) return fmt::format("nothing in {} micro-steps", program.inv_counts.size());
  return fmt::format("{} {} {} {}", found->diversity, found->reply_tokens, found->kl.value(),
                     found->reward.value());
}

TEST(ReplyObjective, OfSeveralRanksFindsWhatOneProcessFinds) {
  const std::vector<std::vector<int32_t>> prompts = {{1, 2}, {3}, {4, 5, 6}, {7}};
  for (const size_t count : {4u, 2u}) {  // the last rank has none of them
    const std::vector<std::vector<int32_t>> given(prompts.begin(),
                                                  prompts.begin() + static_cast<std::ptrdiff_t>(count));
    const std::string one = result_of(given, nullptr);
    const auto told = on_ranks(3, [&](Ranks& ranks, int pipe) { tell(pipe, result_of(given, &ranks)); });
    EXPECT_EQ(told, std::vector<std::string>(3, one));
  }
}

TEST(ReplyObjective, OfSeveralRanksTakesItsMicroStepsWithoutAPrompt) {
  EXPECT_EQ(result_of({}, nullptr), "nothing in 6 micro-steps");
  const auto told = on_ranks(3, [&](Ranks& ranks, int pipe) { tell(pipe, result_of({}, &ranks)); });
  EXPECT_EQ(told, std::vector<std::string>(3, "nothing in 2 micro-steps"));
}

}  // namespace
}  // namespace hydrac::runtime
