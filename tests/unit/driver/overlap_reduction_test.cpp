// Sums over ranks within the backward pass of a program for GPUs: every gradient once, and when it is
// finished.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "driver/accesses.h"
#include "driver/compile.h"
#include "program/for_each_call.h"
#include "tests/unit/driver/h100_spec.h"

namespace hydrac::driver {
namespace {

using program::Access;
using program::Call;

Compiled compiled_for_ranks(std::vector<std::string> overrides) {
  return compile(h100_spec("parallel: {data: 2}\n", overrides), CompileOptions{});
}

// Of a function's calls in their order.
struct Step {
  const Call* call = nullptr;
  std::vector<Access> accesses;
};
std::vector<Step> steps_of(const Compiled& c, const std::string& name) {
  std::vector<Step> steps;
  const auto function = std::ranges::find(c.program.functions, name, &program::Function::name);
  program::for_each_call(*function, [&](const program::Section&, const Call& call, int, int layer) {
    steps.push_back({&call, accesses(c, call, layer)});
  });
  return steps;
}

// Bytes of the arena that hold gradients.
std::vector<Access> gradients_of(const Compiled& c) {
  std::vector<Access> ranges;
  for (const models::ParameterGroup& group : c.pack.groups) {
    const ir::Use use{group.gradients, {}};
    const int64_t first = plan::address(c.graph, c.plan, use, 0);
    ranges.push_back({first, first + plan::extent(c.graph, use)});
  }
  return ranges;
}

// Of some bytes of a gradient: how often it is summed over ranks, and whether it was written.
struct Told {
  int sums = 0;
  bool written = false;
};

bool is_reduction(const Call& call) {
  return is(call, program::Collective::all_reduce);
}

bool finds_largest(const Call& call) {
  return is_reduction(call) && std::get<program::Collective>(call.work).reduction == runtime::Reduction::max;
}

// What some call writes is summed once, behind the last call that writes it.
void expect_summed_once(const Compiled& c) {
  constexpr int64_t kWord = 64;  // bytes of which a gradient has whole ones
  std::map<int64_t, Told> words;
  int written_late = 0;
  for (const Step& step : steps_of(c, "micro_step")) {
    for (const Access& access : step.accesses) {
      if (!access.writes) continue;
      for (const Access& range : gradients_of(c)) {
        for (int64_t at = std::max(access.first, range.first); at < std::min(access.last, range.last);
             at += kWord) {
          Told& word = words[at];
          if (is_reduction(*step.call)) {
            ++word.sums;
          } else {
            written_late += word.sums > 0;
            word.written = true;
          }
        }
      }
    }
  }
  EXPECT_EQ(written_late, 0);
  EXPECT_FALSE(words.empty());
  EXPECT_TRUE(std::ranges::all_of(
      words, [](const auto& word) { return word.second.written && word.second.sums == 1; }));
  for (const Step& step : steps_of(c, "update"))
    EXPECT_EQ(is_reduction(*step.call), finds_largest(*step.call));
}

int sums_of_loss(const Compiled& c) {
  int sums = 0;
  for (const Step& step : steps_of(c, "micro_step"))
    if (is_reduction(*step.call))
      for (const ir::Use use : step.call->arguments) sums += use.value == c.graph.results.loss;
  return sums;
}

TEST(OverlapReduction, SumsEveryGradientOnceWhenItIsFinished) {
  const std::vector<std::vector<std::string>> models = {
      {},
      {"model.tie_word_embeddings=false", "optimizations.loss=fused_linear"},
      {"model.position=learned", "model.norm=layernorm", "model.attention_bias=true", "model.mlp_bias=true"},
      {"model.attention_kind=ccgqa", "model.num_key_value_heads=2"},
      {"model.qk_norm=true", "model.num_key_value_heads=2", "optimizations.weights=bf16",
       "optimizations.gradients=compute"},
      {"train.optimizer.name=muon", "train.freeze=[model.layers.0.*]"},
      {"train.freeze=[model.embed_tokens.*]", "model.tie_word_embeddings=false"},
      {"adapter.type=lora"},
      {"optimizations.precision=fp8", "optimizations.fp8_matmuls=all", "model.intermediate_size=512"},
      {"optimizations.recompute=block", "optimizations.streams=1"},
      {"optimizations.fused_matmuls=all"},
  };
  for (const std::vector<std::string>& overrides : models) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(overrides, " ")));
    const Compiled c = compiled_for_ranks(overrides);
    expect_summed_once(c);
    EXPECT_EQ(sums_of_loss(c), 1);
  }
}

// A layer's sums are one call, beside what computes the layers below it.
TEST(OverlapReduction, ALayersSumsAreOneCallOnAQueueOfTheirOwn) {
  const Compiled c = compiled_for_ranks({});
  int calls = 0;
  for (const Step& step : steps_of(c, "micro_step")) {
    if (!is_reduction(*step.call)) continue;
    EXPECT_EQ(step.call->queue, program::Queue::communication);
    ++calls;
  }
  EXPECT_GE(calls, 3 + 1);  // layers and embedding
  EXPECT_LE(calls, 3 + 3);  // and what is behind the last layer
}

// Accumulated gradients are complete before the update, and not earlier.
TEST(OverlapReduction, AccumulatedGradientsAreSummedBeforeTheUpdate) {
  const Compiled c = compiled_for_ranks({"train.gradient_accumulation_steps=2"});
  for (const Step& step : steps_of(c, "micro_step")) EXPECT_FALSE(is_reduction(*step.call));
  const std::vector<Step> update = steps_of(c, "update");
  ASSERT_FALSE(update.empty());
  EXPECT_TRUE(is_reduction(*update[0].call));
}

// The scales of 8-bit tensors are state, and the same on all ranks.
TEST(OverlapReduction, RanksAgreeOnTheLargestValues) {
  const Compiled c = compiled_for_ranks(
      {"optimizations.precision=fp8", "optimizations.fp8_matmuls=all", "model.intermediate_size=512"});
  int largest = 0;
  for (const Step& step : steps_of(c, "update")) largest += finds_largest(*step.call);
  EXPECT_EQ(largest, 2);  // of operands forward and of gradients
}

}  // namespace
}  // namespace hydrac::driver
