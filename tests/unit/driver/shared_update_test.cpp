// Programs for GPUs whose ranks share the update: what each has in memory, and what they send each other.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "driver/accesses.h"
#include "driver/compile.h"
#include "driver/floor.h"
#include "program/for_each_call.h"
#include "program/queues.h"
#include "tests/unit/driver/h100_spec.h"

namespace hydrac::driver {
namespace {

using program::Call;

Compiled compiled_for(int ranks, std::vector<std::string> overrides) {
  overrides.push_back(fmt::format("parallel.data={}", ranks));
  return compile(h100_spec("parallel: {zero: 1}\n", overrides), CompileOptions{});
}

// What a rank has of gradients that no rank needs whole for long.
const std::vector<std::string> kSharded = {"parallel.zero=2"};

std::vector<std::string> with(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

int64_t bytes_of(const Compiled& c, ir::ValueId value) {
  return element_count(c.graph.value(value).shape) * size_of(c.graph.value(value).dtype);
}

std::vector<std::string> collectives_of(const Compiled& c, const std::string& name) {
  std::vector<std::string> names;
  const auto function = std::ranges::find(c.program.functions, name, &program::Function::name);
  program::for_each_call(*function, [&](const program::Section&, const Call& call, int, int) {
    if (is_collective(call)) names.push_back(name_of(c.program, call) + " " + call.label);
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
           {"parallel.tensor=2", "model.attention_bias=true", "train.max_grad_norm=1"},
           {"train.optimizer.name=muon", "optimizations.optimizer_state=int8"},
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

// A step of several micro-batches sums whole gradients, by calls before the update.
TEST(SharedUpdate, RanksGiveEachOtherCopiesOf16Bits) {
  const Compiled c = compiled_for(2, {"train.gradient_accumulation_steps=2"});
  EXPECT_FALSE(c.pack.shards_gradients);
  std::vector<std::string> update = {"reduce_scatter own_gradients.token_embedding",
                                     "reduce_scatter own_gradients.attn.qkv.weight",
                                     "reduce_scatter own_gradients.attn.qkv.weight",
                                     "reduce_scatter own_gradients.attn.qkv.weight",
                                     "all_reduce loss",
                                     "all_reduce squares",
                                     "all_reduce vectors"};
  const std::vector<std::string> copies = {
      "all_gather token_embedding.bf16", "all_gather attn.qkv.weight.bf16", "all_gather attn.qkv.weight.bf16",
      "all_gather attn.qkv.weight.bf16"};
  EXPECT_EQ(collectives_of(c, "load"), with({"all_reduce vectors"}, copies));
  EXPECT_EQ(collectives_of(c, "update"), with(update, copies));
  EXPECT_EQ(collectives_of(c, "micro_step"), std::vector<std::string>());
  const int64_t gradients = bytes_of(c, c.pack.groups[0].gradients),
                vectors = bytes_of(c, c.graph.find("vectors")),
                squares = bytes_of(c, c.graph.find("squares"));
  EXPECT_EQ(bytes_sent_per_step(c), (gradients + gradients / 2) / 2 + squares + vectors + 4);
}

TEST(SharedUpdate, WeightsOf16BitsAreWholeAndSentAsTheyAre) {
  const Compiled c = compiled_for(2, {"optimizations.weights=bf16"});
  EXPECT_FALSE(c.pack.is_divided);
  expect_calls_within_the_arena(c);
  const std::vector<std::string> update = {"all_reduce loss",
                                           "all_reduce squares",
                                           "all_gather token_embedding",
                                           "all_gather attn.qkv.weight",
                                           "all_gather attn.qkv.weight",
                                           "all_gather attn.qkv.weight"};
  EXPECT_EQ(collectives_of(c, "update"), update);
}

// Bytes of the arena, and how often a call of ranks has written them, or made sums of micro-batches of them.
std::map<int64_t, int> sums_of_own_gradients(const Compiled& c) {
  constexpr int64_t kWord = 64;
  std::map<int64_t, int> sums;
  const auto function = std::ranges::find(c.program.functions, "micro_step", &program::Function::name);
  program::for_each_call(*function, [&](const program::Section&, const Call& call, int, int layer) {
    const std::vector<program::Access> touched = accesses(c, call, layer);
    for (size_t i = 0; i < touched.size(); ++i) {
      const ir::ValueId storage = storage_of(c.graph, call.arguments[i].value);
      if (!touched[i].writes ||
          std::ranges::find(c.pack.groups, storage, &models::ParameterGroup::own_gradients) ==
              c.pack.groups.end())
        continue;
      EXPECT_EQ(call.queue, program::Queue::communication) << call.label;
      for (int64_t at = touched[i].first; at < touched[i].last; at += kWord) ++sums[at];
    }
  });
  return sums;
}

// A layer's gradients have memory for two layers: one computes while the other is summed. No rank has all of
// them, and each has its part of all sums.
TEST(SharedUpdate, ARankKeepsItsPartOfTheGradientsAlone) {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"parallel.zero=1"},
           kSharded,
           with(kSharded, {"train.gradient_accumulation_steps=2"}),
           with(kSharded, {"train.gradient_accumulation_steps=2", "optimizations.exact_accumulation=true",
                           "optimizations.loss=fused_linear"}),
           with(kSharded, {"optimizations.gradients=compute", "model.tie_word_embeddings=true"}),
           with(kSharded, {"optimizations.optimizer_state=int8", "optimizations.recompute=block"}),
           with(kSharded, {"optimizations.precision=fp16", "model.norm=layernorm"}),
           with(kSharded, {"optimizations.precision=fp8", "optimizations.fp8_matmuls=all"}),
           with(kSharded, {"train.freeze=[model.layers.0.*]", "model.attention_bias=true"}),
           with(kSharded, {"adapter.type=lora"}),
           with(kSharded, {"train.optimizer.name=muon"}),
           {"parallel.zero=3"},
           {"parallel.zero=3", "train.gradient_accumulation_steps=2"}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(overrides, " ")));
    const Compiled c = compiled_for(2, overrides);
    ASSERT_TRUE(c.pack.shards_gradients);
    expect_calls_within_the_arena(c);
    int64_t own = 0;
    for (const models::ParameterGroup& group : c.pack.groups) {
      own += bytes_of(c, group.own_gradients);
      for (const models::Stretch& stretch : group.stretches) {
        if (stretch.slots == 1) continue;
        const ir::ValueId storage = storage_of(c.graph, stretch.gradients);
        EXPECT_EQ(c.graph.value(storage).role, ir::Role::activation);
        EXPECT_LE(c.plan.placements.at(storage).slots, 2);
      }
    }
    const std::map<int64_t, int> sums = sums_of_own_gradients(c);
    EXPECT_EQ(std::ssize(sums) * 64, own);
    EXPECT_TRUE(std::ranges::all_of(sums, [](const auto& word) { return word.second == 1; }));
    EXPECT_EQ(collectives_of(c, "update").front(), "all_reduce loss");
  }
}

// Of 3 layers a rank of 2 has the matrices of 2 whole, of which those of one may be zeros, in memory of the
// update alone; it sends half of what it has of updates, and gets half back.
TEST(SharedUpdate, ARankOrthogonalizesMatricesOfItsLayers) {
  for (const std::string level : {"parallel.zero=1", "parallel.zero=3"}) {
    SCOPED_TRACE(level);
    const Compiled c = compiled_for(2, {level, "train.optimizer.name=muon"});
    expect_calls_within_the_arena(c);
    const std::vector<std::string> update = collectives_of(c, "update");
    EXPECT_EQ(std::ranges::count(update, "to_owners muon.whole.attn.qkv.weight"), 1);
    EXPECT_EQ(std::ranges::count_if(update,
                                    [](const std::string& call) { return call.starts_with("from_owners "); }),
              1);
    const auto function = std::ranges::find(c.program.functions, "update", &program::Function::name);
    int64_t matmuls = 0;
    program::for_each_call(*function, [&](const program::Section&, const Call& call, int, int) {
      if (const program::GemmShape* shape = matmul_of(call)) {
        EXPECT_EQ(shape->batch, 2);
        ++matmuls;
      }
      const auto* exchange = std::get_if<program::Collective>(&call.work);
      if (exchange && exchange->has_slots()) {
        int64_t parts = 0, whole = 0;
        for (const auto& tensor : exchange->tensors(call.arguments)) {
          const ir::Use part = exchange->part(tensor),
                        owned = exchange->reads_parts() ? tensor.to : tensor.from;
          parts += bytes_of(c, part.value);
          whole += bytes_of(c, owned.value);
          EXPECT_FALSE(c.graph.value(owned.value).view);
        }
        EXPECT_EQ(whole, parts / 3 * 4);  // 2 of 3 layers, and both ranks' parts of them
        EXPECT_EQ(call.bytes, static_cast<double>(parts) / 2);
        EXPECT_EQ(call.queue, program::Queue::main);
      }
    });
    EXPECT_EQ(matmuls, 5 * 3 * 7);  // q, k, v, their output, gate, up and down
    const ir::Value& momentum = c.graph.value(c.graph.find("muon.m"));
    EXPECT_EQ(element_count(momentum.shape),
              element_count(c.graph.value(c.pack.groups[0].parameters).shape) / 2);
  }
}

TEST(SharedUpdate, SumsOfMicroBatchesAreShardedToo) {
  const auto gradients = [](const Compiled& c) {
    int64_t bytes = 0;
    for (const ir::Value& value : c.graph.values)
      if (value.role == ir::Role::gradient && !value.view) bytes += bytes_of(c, value.id);
    return bytes;
  };
  const std::vector<std::string> words = {"train.gradient_accumulation_steps=2",
                                          "model.num_hidden_layers=12"};
  const Compiled whole = compiled_for(4, words), sharded = compiled_for(4, with(words, kSharded));
  EXPECT_LT(gradients(sharded), gradients(whole) / 4 + (128 << 10));
  EXPECT_LT(sharded.plan.arena_bytes, whole.plan.arena_bytes - gradients(whole) / 2);
}

}  // namespace
}  // namespace hydrac::driver
