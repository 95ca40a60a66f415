// Programs for GPUs whose ranks share the update: what each has in memory, and what they send each other.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "driver/accesses.h"
#include "driver/compile.h"
#include "driver/floor.h"
#include "program/for_each_call.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using program::Call;

Compiled compiled_for(int ranks, std::vector<std::string> overrides) {
  overrides.push_back(fmt::format("parallel.data={}", ranks));
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 256, num_hidden_layers: 3, num_attention_heads: 4, vocab_size: 512}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, micro_batch_size: 16, max_steps: 10}\n"
      "parallel: {zero: 1}\n",
      overrides);
  return compile(spec, CompileOptions{});
}

int64_t bytes_of(const Compiled& c, ir::ValueId value) {
  return element_count(c.graph.value(value).shape) * size_of(c.graph.value(value).dtype);
}

std::vector<std::string> collectives_of(const Compiled& c, const std::string& name) {
  std::vector<std::string> names;
  const auto function = std::ranges::find(c.program.functions, name, &program::Function::name);
  program::for_each_call(*function, [&](const program::Section&, const Call& call, int, int) {
    if (call.is_collective()) names.push_back(name_of(c.program, call) + " " + call.label);
  });
  return names;
}

// What no rank has is an address for the host alone.
void expect_calls_within_the_arena(const Compiled& c) {
  for (const program::Function& function : c.program.functions) {
    program::for_each_call(function, [&](const program::Section&, const Call& call, int, int layer) {
      for (const program::Access& access : accesses(c, call, layer))
        EXPECT_TRUE(access.first >= 0 && access.last <= c.plan.arena_bytes) << call.label;
    });
  }
}

TEST(SharedUpdate, ARankHasItsPartOfTheFp32WeightsBesideCopiesOf16Bits) {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {},
           {"optimizations.gradients=compute"},
           {"optimizations.precision=fp16", "model.norm=layernorm"},
           {"optimizations.optimizer_state=int8"},
           {"optimizations.precision=fp8", "optimizations.fp8_matmuls=all"},
           {"train.freeze=[model.layers.0.*]", "model.attention_bias=true"},
           {"adapter.type=lora"},
           {"optimizations.recompute=block", "optimizations.loss=fused_linear",
            "train.gradient_accumulation_steps=2"}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(overrides, " ")));
    const Compiled c = compiled_for(4, overrides);
    EXPECT_TRUE(c.pack.is_divided);
    EXPECT_FALSE(c.plan.placements.contains(c.pack.parameters));
    expect_calls_within_the_arena(c);
    int64_t own = 0;
    for (const models::ParameterGroup& group : c.pack.groups) {
      EXPECT_TRUE(c.plan.placements.contains(group.own_parameters));
      own += bytes_of(c, group.own_parameters);
    }
    EXPECT_EQ(own, bytes_of(c, c.pack.parameters) / 4);
  }
}

TEST(SharedUpdate, RanksGiveEachOtherCopiesOf16Bits) {
  const Compiled c = compiled_for(2, {});
  const std::vector<std::string> update = {"reduce_scatter own_gradients", "all_reduce loss",
                                           "all_gather squares", "all_gather parameters.bf16",
                                           "all_reduce vectors"};
  EXPECT_EQ(collectives_of(c, "update"), update);
  EXPECT_EQ(collectives_of(c, "load"),
            (std::vector<std::string>{"all_gather parameters.bf16", "all_reduce vectors"}));
  EXPECT_EQ(collectives_of(c, "micro_step"), std::vector<std::string>());
  const int64_t gradients = bytes_of(c, c.pack.groups[0].gradients),
                vectors = bytes_of(c, c.graph.find("vectors")),
                squares = bytes_of(c, c.graph.find("squares"));
  EXPECT_EQ(bytes_sent_per_step(c), (gradients + gradients / 2 + squares) / 2 + vectors + 4);
}

TEST(SharedUpdate, WeightsOf16BitsAreWholeAndSentAsTheyAre) {
  const Compiled c = compiled_for(2, {"optimizations.weights=bf16"});
  EXPECT_FALSE(c.pack.is_divided);
  expect_calls_within_the_arena(c);
  const std::vector<std::string> update = {"reduce_scatter own_gradients", "all_reduce loss",
                                           "all_gather squares", "all_gather parameters"};
  EXPECT_EQ(collectives_of(c, "update"), update);
}

}  // namespace
}  // namespace hydrac::driver
