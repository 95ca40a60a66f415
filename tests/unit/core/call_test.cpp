// What the arguments of a call are, by name.
#include "program/call.h"

#include <gtest/gtest.h>

#include "runtime/parallel/ranks.h"

namespace hydrac::program {
namespace {

using runtime::RankGroup;
using Names = std::vector<std::string>;

TEST(Call, AMatmulOfTheCpuHasThreeOperands) {
  const auto operands = Gemm{}.operands(Names{"a", "b", "c"});
  EXPECT_EQ((Names{operands.a, operands.b, operands.c}), (Names{"a", "b", "c"}));
  EXPECT_EQ(operands.workspace + operands.bias + operands.a_scale + operands.b_scale, "");
}

TEST(Call, AMatmulsOptionalOperandsFollowTheWorkspaceInOrder) {
  const ir::DType narrow = ir::DType::f8e4m3;
  const auto biased = Gemm{{.bias = true}}.operands(Names{"a", "b", "c", "w", "bias"});
  EXPECT_EQ((Names{biased.workspace, biased.bias, biased.a_scale}), (Names{"w", "bias", ""}));
  const auto scaled = Gemm{{.a = narrow, .b = narrow}}.operands(Names{"a", "b", "c", "w", "sa", "sb"});
  EXPECT_EQ((Names{scaled.bias, scaled.a_scale, scaled.b_scale}), (Names{"", "sa", "sb"}));
  const auto both =
      Gemm{{.bias = true, .a = narrow, .b = narrow}}.operands(Names{"a", "b", "c", "w", "bias", "sa", "sb"});
  EXPECT_EQ((Names{both.bias, both.a_scale, both.b_scale}), (Names{"bias", "sa", "sb"}));
}

TEST(Call, AttentionNamesWhatBothPassesHave) {
  const auto forward = Attention{}.tensors(Names{"q", "k", "v", "out", "lse", "w"});
  const auto backward = Attention{{.backward = true}}.tensors(
      Names{"d_out", "out", "lse", "q", "k", "v", "d_q", "d_k", "d_v", "w"});
  for (const auto& t : {forward, backward})
    EXPECT_EQ((Names{t.q, t.k, t.v, t.out, t.lse, t.workspace}), (Names{"q", "k", "v", "out", "lse", "w"}));
  EXPECT_EQ((Names{backward.d_out, backward.d_q, backward.d_k, backward.d_v}),
            (Names{"d_out", "d_q", "d_k", "d_v"}));
  EXPECT_EQ(forward.d_out, "");
}

TEST(Call, PartsComeBehindTheirTensorsButInAGather) {
  const Names arguments = {"1", "2", "3", "4"};
  const auto scattered = ReduceScatter(RankGroup::data).tensors(arguments);
  const auto owned = OwnPart(RankGroup::data).tensors(arguments);
  const auto gathered = AllGather(RankGroup::data).tensors(arguments);
  for (const auto& pairs : {scattered, owned}) {
    ASSERT_EQ(pairs.size(), 2u);
    EXPECT_EQ((Names{pairs[1].whole, pairs[1].part}), (Names{"2", "4"}));
  }
  EXPECT_EQ((Names{gathered[1].whole, gathered[1].part}), (Names{"4", "2"}));
}

TEST(Call, OnlyWhatRanksExchangeIsACollective) {
  const auto is_one = [](Call::Work work) { return is_collective({.work = std::move(work)}); };
  EXPECT_TRUE(is_one(AllReduce{RankGroup::data}));
  EXPECT_TRUE(is_one(SumOverRanks{RankGroup::tensor}));
  EXPECT_TRUE(is_one(ReduceScatter(RankGroup::data)));
  EXPECT_TRUE(is_one(AllGather(RankGroup::data)));
  EXPECT_FALSE(is_one(OwnPart(RankGroup::data)));
  EXPECT_FALSE(is_one(Launch{}));
  EXPECT_FALSE(is_one(Copy{}));
}

TEST(Call, KnowsWhoseRanksTakePart) {
  EXPECT_EQ(ranks_of({.work = AllGather(RankGroup::tensor)}), RankGroup::tensor);
  EXPECT_EQ(ranks_of({.work = OwnPart(RankGroup::data)}), RankGroup::data);
  EXPECT_EQ(ranks_of({.work = Gemm{}}), std::nullopt);
}

TEST(Call, ItsMatmulIsTheLibrarysOrAKernels) {
  const Call library{.work = Gemm{{.m = 2}}}, ours{.work = Launch{.kernel = 0, .matmul = GemmShape{.m = 3}}};
  ASSERT_NE(matmul_of(library), nullptr);
  ASSERT_NE(matmul_of(ours), nullptr);
  EXPECT_EQ(matmul_of(library)->m, 2);
  EXPECT_EQ(matmul_of(ours)->m, 3);
  EXPECT_EQ(matmul_of({.work = Launch{.kernel = 0}}), nullptr);
  EXPECT_EQ(matmul_of({.work = Zero{}}), nullptr);
}

}  // namespace
}  // namespace hydrac::program
