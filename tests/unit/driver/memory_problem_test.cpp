// What is said about a program that does not fit: every number in it was planned.
#include "driver/memory_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using passes::RecomputeChoice;

// 1024 rows of 40000 logits; a little more than three layers of activations.
spec::Spec spec_with(const std::vector<std::string>& overrides = {}) {
  return test::spec_of_text(
      "name: test\n"
      "target: cpu\n"
      "model: {hidden_size: 64, num_hidden_layers: 4, num_attention_heads: 4, vocab_size: 40000}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, micro_batch_size: 16, max_steps: 10}\n",
      overrides);
}

// One without a large head, so that activations decide.
spec::Spec small_head(std::vector<std::string> overrides = {}) {
  overrides.push_back("model.vocab_size=256");
  return spec_with(overrides);
}

int64_t bytes_of(const spec::Spec& spec, const RecomputeChoice& choice = {}) {
  return compile(spec, choice, {}).plan.arena_bytes;
}

CompileOptions within(int64_t bytes) {
  CompileOptions options;
  options.memory_bytes = bytes;
  return options;
}

// Parts of the head by the hundred thousand: planned in seconds, not for hours.
TEST(Remedies, OfAHugeBatchAreFoundInSeconds) {
  const spec::Spec spec = small_head({"train.micro_batch_size=65536", "train.sequence_len=65536"});
  const std::clock_t began = std::clock();  // of this process, whatever else the machine does
  const auto problem = memory_problem(compile(spec, {}), within(int64_t{4} << 30));
  const std::clock_t taken = std::clock() - began;
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->suggestion.find("it fits with train.micro_batch_size: "), 0u) << problem->suggestion;
  EXPECT_LT(taken, 60 * CLOCKS_PER_SEC);
}

TEST(MemoryLimit, RoomForTheSideQueueIsLeftOutBeforeAProgramDoesNotFit) {
  const spec::Spec spec = small_head({"target=h200", "model.num_attention_heads=1"});
  const int64_t roomy = bytes_of(spec);
  const CompileOptions less = within(roomy - 1);
  const Compiled c = compile(spec, less);
  EXPECT_LT(c.plan.arena_bytes, roomy);
  EXPECT_EQ(c.plan.arena_bytes, plan::make_plan(c.graph).arena_bytes);
  EXPECT_FALSE(memory_problem(c, less).has_value());
}

TEST(MemoryLimit, OfAGpuIsItsMemoryLessAReserve) {
  const MemoryLimit limit = memory_limit(spec_with({"target=h200"}), {});
  const auto all = static_cast<int64_t>(139.8 * 0x1p30);
  EXPECT_EQ(limit.bytes, all - all / 100 * 3 - (600LL << 20));
  EXPECT_EQ(limit.source,
            "h200 has 135 GiB for it (140 GiB, less 4.78 GiB for the CUDA context and libraries)");
}
TEST(MemoryLimit, IsWhatIsGiven) {
  const MemoryLimit limit = memory_limit(spec_with({"target=h200"}), within(3LL << 30));
  EXPECT_EQ(limit.bytes, 3LL << 30);
  EXPECT_EQ(limit.source, "it may take 3.00 GiB");
}
TEST(MemoryLimit, OfTheSpecIsOneOnAnyTargetAndTheSmallerOneCounts) {
  for (const char* target : {"target=h200", "target=cpu"}) {
    const spec::Spec spec = spec_with({target, "optimizations.memory_limit=4"});
    EXPECT_EQ(memory_limit(spec, {}).bytes, 4LL << 30);
    EXPECT_EQ(memory_limit(spec, {}).source, "optimizations.memory_limit is 4.00 GiB");
    EXPECT_EQ(memory_limit(spec, within(8LL << 30)).bytes, 4LL << 30);
    EXPECT_EQ(memory_limit(spec, within(3LL << 30)).source, "it may take 3.00 GiB");
  }
}
TEST(MemoryLimit, OfTheCpuIsLessThanTheMachineHas) {
  const MemoryLimit limit = memory_limit(spec_with(), {});
  EXPECT_GT(limit.bytes, 0);
  EXPECT_TRUE(limit.source.starts_with("this machine has ")) << limit.source;
}
TEST(MemoryLimit, OfAnArchitectureIsNotKnownAndRefusesNothing) {
  const spec::Spec spec = spec_with({"target=sm_90", "model.head_dim=64"});
  EXPECT_EQ(memory_limit(spec, {}).bytes, 0);
  EXPECT_FALSE(memory_problem(compile(spec, CompileOptions{}), {}).has_value());
}

TEST(MemoryProblem, IsNoneWhereThePlanFitsToTheByte) {
  const Compiled c = compile(spec_with(), CompileOptions{});
  EXPECT_FALSE(memory_problem(c, within(c.plan.arena_bytes)).has_value());
  EXPECT_TRUE(memory_problem(c, within(c.plan.arena_bytes - 1)).has_value());
}

spec::Spec with_batch(spec::Spec spec, int64_t size) {
  spec.train.micro_batch_size = size;
  return spec;
}

TEST(MemoryProblem, NamesTheLargestBatchThatFits) {
  const spec::Spec spec = small_head({"optimizations.recompute=block", "optimizations.loss=chunked"});
  const RecomputeChoice block{.block = true};
  const int64_t limit = bytes_of(with_batch(spec, 11), block);
  ASSERT_GT(bytes_of(with_batch(spec, 12), block), limit);
  const auto problem = memory_problem(compile(spec, CompileOptions{}), within(limit));
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->kind, diag::Kind::out_of_memory);
  EXPECT_EQ(problem->where, (diag::Location{"test.yaml", 5, 45}));
  EXPECT_EQ(problem->suggestion, "it fits with train.micro_batch_size: 11");
}

TEST(MemoryProblem, NamesEveryKeyThatWouldDo) {
  const spec::Spec spec = spec_with();
  const auto by_choice = memory_problem(compile(small_head(), CompileOptions{}),
                                        within(bytes_of(small_head(), {.norm = true, .act = true})));
  ASSERT_TRUE(by_choice.has_value());
  EXPECT_NE(by_choice->suggestion.find(", or with optimizations.recompute: [norm, act]"), std::string::npos)
      << by_choice->suggestion;
  const auto by_loss = memory_problem(compile(spec, CompileOptions{}),
                                      within(bytes_of(spec_with({"optimizations.loss=fused_linear"}))));
  ASSERT_TRUE(by_loss.has_value());
  EXPECT_TRUE(by_loss->suggestion.ends_with(
      ", or with optimizations.loss: fused_linear, or with optimizations.fit: auto"))
      << by_loss->suggestion;
}

TEST(MemoryProblem, NamesTwoKeysTogetherWhereOneDoesNotDo) {
  const spec::Spec fused = spec_with({"optimizations.loss=fused_linear"});
  const int64_t limit = bytes_of(fused, {.act = true});
  ASSERT_LT(limit, bytes_of(fused));
  const auto problem = memory_problem(compile(spec_with(), CompileOptions{}), within(limit));
  ASSERT_TRUE(problem.has_value());
  EXPECT_TRUE(problem->suggestion.ends_with(
      ", or with optimizations.recompute: [act] and optimizations.loss: fused_linear, or with "
      "optimizations.fit: auto"))
      << problem->suggestion;
}

TEST(MemoryProblem, NamesFitOnlyWhereItMayWriteTheKeys) {
  const int64_t limit = bytes_of(small_head(), {.norm = true, .act = true});
  const spec::Spec open = small_head({"optimizations.loss=materialized"});
  const spec::Spec closed = small_head({"optimizations.loss=materialized", "optimizations.recompute=none"});
  const auto suggestion = [&](const spec::Spec& spec) {
    return memory_problem(compile(spec, CompileOptions{}), within(limit))->suggestion;
  };
  EXPECT_NE(suggestion(open).find("optimizations.fit: auto"), std::string::npos) << suggestion(open);
  EXPECT_EQ(suggestion(closed).find("optimizations.fit"), std::string::npos) << suggestion(closed);
}

// In a large model with few tokens, moments decide.
TEST(MemoryProblem, NamesTheHostsMemoryOnGpus) {
  const spec::Spec spec = small_head({"target=h200", "model.head_dim=64", "train.micro_batch_size=1"});
  spec::Spec offloaded = spec;
  offloaded.optimizations.offload.optimizer_state = 1;
  CompileOptions tight = within(1);
  const int64_t limit = compile(offloaded, tight).plan.device_bytes();
  const auto problem = memory_problem(compile(spec, CompileOptions{}), within(limit));
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->suggestion.find("with optimizations.offload.optimizer_state: true, or with "
                                     "optimizations.fit: auto"),
            std::string::npos)
      << problem->suggestion;
}

// In a large model with few tokens, parameters and what goes with them decide.
TEST(MemoryProblem, NamesNarrowStateOnGpus) {
  const auto of = [](std::vector<std::string> overrides) {
    for (const char* one : {"target=h200", "model.head_dim=64", "train.micro_batch_size=1"})
      overrides.emplace_back(one);
    return small_head(overrides);
  };
  const std::string moments = "optimizations.optimizer_state=int8", weights = "optimizations.weights=bf16",
                    gradients = "optimizations.gradients=compute";
  const int64_t wide = bytes_of(of({})), one = bytes_of(of({moments})),
                two = bytes_of(of({moments, weights})), three = bytes_of(of({moments, weights, gradients}));
  ASSERT_TRUE(wide > one && one > two && two > three);
  const auto suggestion = [&](int64_t limit) {
    return memory_problem(compile(of({}), CompileOptions{}), within(limit))->suggestion;
  };
  EXPECT_TRUE(suggestion(one).ends_with("with optimizations.optimizer_state: int8")) << suggestion(one);
  EXPECT_TRUE(
      suggestion(three).ends_with("with optimizations.optimizer_state: int8 and optimizations.weights: "
                                  "bf16 and optimizations.gradients: compute"))
      << suggestion(three);
}

TEST(MemoryProblem, NamesASharedUpdateWhereSeveralRanksTrain) {
  const auto of = [](std::vector<std::string> overrides) {
    for (const char* one :
         {"target=h200", "model.head_dim=64", "train.micro_batch_size=1", "parallel.data=4"})
      overrides.emplace_back(one);
    return small_head(overrides);
  };
  const int64_t shared = bytes_of(of({"parallel.zero=1"}));
  ASSERT_LT(shared, bytes_of(of({})));
  const auto suggestion = [&](const std::vector<std::string>& overrides) {
    return memory_problem(compile(of(overrides), CompileOptions{}), within(shared))->suggestion;
  };
  EXPECT_TRUE(suggestion({}).starts_with("it fits with parallel.zero: 1")) << suggestion({});
  const auto of_three = [&](std::vector<std::string> overrides) {
    overrides.emplace_back("model.num_hidden_layers=12");
    return memory_problem(compile(of(overrides), CompileOptions{}),
                          within(bytes_of(of({"parallel.zero=3", "model.num_hidden_layers=12"}))))
        ->suggestion;
  };
  EXPECT_TRUE(of_three({}).starts_with("it fits with parallel.zero: 3")) << of_three({});
  const std::string muon = suggestion({"train.optimizer.name=muon"});
  EXPECT_TRUE(muon.starts_with("it fits with parallel.zero: 1")) << muon;
}

TEST(MemoryProblem, SaysThatNoBatchFits) {
  const auto problem = memory_problem(compile(spec_with(), CompileOptions{}), within(1 << 20));
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->suggestion,
            "no micro-batch fits: a smaller model, or a shorter train.sequence_len, may");
}

}  // namespace
}  // namespace hydrac::driver
