// What the arguments of a call are, by name.
#include "program/call.h"

#include <gtest/gtest.h>

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

TEST(Call, ACollectivesTensorsComeBehindThoseThatItReads) {
  const Names arguments = {"1", "2", "3", "4"};
  const auto pairs = Collective{{Collective::reduce_scatter}}.tensors(arguments);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ((Names{pairs[1].from, pairs[1].to}), (Names{"2", "4"}));
  const auto in_place = Collective{{Collective::all_reduce}, true}.tensors(arguments);
  ASSERT_EQ(in_place.size(), 4u);
  EXPECT_EQ((Names{in_place[1].from, in_place[1].to}), (Names{"2", "2"}));
}

TEST(Call, OnlyWhatRanksExchangeIsACollective) {
  const auto is_one = [](Call::Work work) { return is_collective({.work = std::move(work)}); };
  EXPECT_TRUE(is_one(Collective{{Collective::all_reduce}}));
  EXPECT_TRUE(is_one(Collective{{Collective::to_owners}}));
  EXPECT_FALSE(is_one(Collective{{Collective::own_part}}));
  EXPECT_FALSE(is_one(Launch{}));
  EXPECT_FALSE(is_one(Copy{}));
}

TEST(Call, APartIsWhatACollectiveSaysItIs) {
  using Pair = FromTo<std::string>;
  EXPECT_EQ(Collective{{Collective::all_gather}}.part(Pair{"from", "to"}), "from");
  EXPECT_EQ(Collective{{Collective::to_owners}}.part(Pair{"from", "to"}), "from");
  for (const auto kind : {Collective::reduce_scatter, Collective::own_part, Collective::from_owners})
    EXPECT_EQ(Collective{{kind}}.part(Pair{"from", "to"}), "to");
}

TEST(Call, ACollectiveIsFoundByItsName) {
  for (const auto kind : {Collective::all_reduce, Collective::own_part, Collective::from_owners})
    EXPECT_EQ(runtime::collective_named(to_string(kind)), kind);
  EXPECT_EQ(runtime::collective_named("linear"), std::nullopt);
}

TEST(Call, KnowsWhoseRanksTakePart) {
  EXPECT_EQ(ranks_of({.work = Collective{{Collective::all_gather, RankGroup::tensor}}}), RankGroup::tensor);
  EXPECT_EQ(ranks_of({.work = Collective{{Collective::own_part}}}), RankGroup::data);
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
