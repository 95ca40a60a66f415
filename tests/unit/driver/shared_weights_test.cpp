// Programs for GPUs whose layers gather their weights from ranks (parallel.zero: 3).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "driver/accesses.h"
#include "driver/compile.h"
#include "program/for_each_call.h"
#include "program/queues.h"
#include "tests/unit/driver/fetched_weights.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using program::Call;
using Words = std::vector<std::string>;

Compiled compiled_for(const Words& overrides) {
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 256, num_hidden_layers: 5, num_attention_heads: 4, vocab_size: 512}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, micro_batch_size: 16, max_steps: 10}\n"
      "parallel: {data: 2, zero: 3}\n",
      overrides);
  return compile(spec, CompileOptions{});
}

bool gathers_a_layer(const Compiled& c, const Call& call) {
  return is(call, program::Collective::all_gather) &&
         c.graph.value(storage_of(c.graph, call.arguments.back().value)).role == ir::Role::activation;
}

// The rank's rows of what the use is of, in a slot of that parameter.
int64_t own_rows_of(const Compiled& c, ir::Use use, int slot) {
  const ir::DType dtype = c.graph.value(use).dtype;
  const std::string name = parameter_of(c, use);
  const bool is_frozen =
      c.pack.frozen && std::ranges::count(c.pack.frozen->stretches, name, &models::Stretch::name) > 0;
  const models::ParameterGroup& group = is_frozen ? *c.pack.frozen : c.pack.groups[0];
  const bool is_read = is_frozen || dtype == c.graph.value(c.pack.parameters).dtype;
  const ir::ValueId own =
      is_read ? group.own_parameters : c.graph.find(fmt::format("own_parameters.{}", to_string(dtype)));
  const auto stretch = std::ranges::find(group.stretches, name, &models::Stretch::name);
  return plan::address(c.graph, c.plan, {own, {}}, 0) +
         (stretch->first_own_row + slot * stretch->own) * c.pack.row * size_of(dtype);
}

// Returns how often layers read weights that were gathered, of which each must be that layer's own.
int check_reads_of_ranks(const Compiled& c, const std::string& name) {
  Fetched fetched(c);
  int reads = 0;
  program::for_each_call(
      function_of(c, name), [&](const program::Section& section, const Call& call, int, int layer) {
        fetched.run(call, layer);
        if (gathers_a_layer(c, call)) {
          EXPECT_EQ(call.queue, program::Queue::communication);
          return;
        }
        for (const ir::Use use : call.operands) {
          if (!is_of_layer(c, use)) continue;
          ++reads;
          EXPECT_EQ(fetched.origin(use, layer), own_rows_of(c, use, parameter_slot(c, use, section, layer)))
              << call.label << " of layer " << layer;
        }
      });
  return reads;
}

int64_t bytes_of_role(const Compiled& c, ir::Role role) {
  int64_t bytes = 0;
  for (const auto& [id, placement] : c.plan.placements)
    if (c.graph.value(id).role == role) bytes += placement.bytes();
  return bytes;
}

void expect_memory_for_two_layers(const Compiled& c) {
  for (const ir::Value& value : c.graph.values) {
    if (!value.name.starts_with("weights.") || value.view) continue;
    EXPECT_EQ(c.plan.placements.at(value.id).slots, std::min(value.slots, 2)) << value.name;
  }
}

// Memory for two layers, forward and backward: one computes while the other is gathered.
TEST(SharedWeights, LayersGatherTheirOwn) {
  for (const Words& overrides : std::vector<Words>{
           {},
           {"model.vocab_size=32768"},
           {"optimizations.precision=fp16", "model.norm=layernorm", "model.attention_bias=true"},
           {"optimizations.precision=tf32"},
           {"optimizations.weights=bf16"},
           {"optimizations.recompute=block", "optimizations.recompute_layers=2"},
           {"optimizations.recompute=block", "optimizations.loss=fused_linear",
            "train.gradient_accumulation_steps=2"},
           {"optimizations.fused_matmuls=all"},
           {"optimizations.offload.activations=true", "optimizations.offload.optimizer_state=true",
            "train.sequence_len=512"},
           {"optimizations.streams=1"}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(overrides, " ")));
    const Compiled c = compiled_for(overrides);
    expect_memory_for_two_layers(c);
    const int layers = 5, matrices = 4;
    EXPECT_GE(check_reads_of_ranks(c, "micro_step"), 2 * layers * matrices);
    EXPECT_EQ(check_reads_of_ranks(c, "evaluate"), layers * matrices);
    EXPECT_EQ(check_reads_of_ranks(c, "generate"), layers * matrices);
    for (const program::Function& function : c.program.functions)
      program::for_each_call(function, [&](const program::Section&, const Call& call, int, int layer) {
        for (const program::Access& access : accesses(c, call, layer))
          EXPECT_TRUE(access.first >= 0 && access.last <= c.plan.arena_bytes) << call.label;
      });
  }
}

// What is of no layer is whole on every rank, and layers of which only some train have values of their own.
TEST(SharedWeights, ARankHasItsPartOfTheRest) {
  const Compiled whole = compiled_for({"parallel.zero=2"}), shared = compiled_for({});
  const int64_t embedding = 512 * 256 * 2;
  const int64_t copies = bytes_of_role(whole, ir::Role::working_copy) - embedding;
  EXPECT_NEAR(static_cast<double>(bytes_of_role(shared, ir::Role::working_copy)),
              static_cast<double>(copies) / 2 + 1.5 * embedding,
              384 << 10);  // rows ahead of the first layer's
  EXPECT_EQ(bytes_of_role(whole, ir::Role::master), bytes_of_role(shared, ir::Role::master));
  const Compiled frozen = compiled_for({"train.freeze=[model.layers.1.*]"});
  EXPECT_TRUE(frozen.pack.shards_weights);
  const auto gathers = [&](const std::string& name) {
    int count = 0;
    program::for_each_call(function_of(frozen, name),
                           [&](const program::Section&, const Call& call, int, int) {
                             count += gathers_a_layer(frozen, call) ? 1 : 0;
                           });
    return count;
  };
  EXPECT_EQ(gathers("evaluate"), 5);
  // Backward, one for nobody: of three layers, of the frozen one and of the first.
  EXPECT_EQ(gathers("micro_step"), 5 + (3 + 1) + 1 + 1);
}

// An adapter's base, and layers that do not train: in the 16 bits that are read.
TEST(SharedWeights, LayersGatherFrozenMatricesToo) {
  for (const Words& overrides : std::vector<Words>{
           {"adapter.type=lora"}, {"train.freeze=[model.layers.1.*]", "optimizations.precision=fp16"}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(overrides, " ")));
    const Compiled c = compiled_for(overrides);
    Words words = overrides;
    words.emplace_back("parallel.zero=2");
    const Compiled whole = compiled_for(words);
    ASSERT_TRUE(c.pack.frozen.has_value());
    expect_memory_for_two_layers(c);
    const int layers = 5, matrices = 4;
    EXPECT_GE(check_reads_of_ranks(c, "micro_step"), 2 * layers * matrices);
    EXPECT_GE(check_reads_of_ranks(c, "evaluate"), layers * matrices);
    int64_t divided = 0;
    for (const ir::ValueId member : c.pack.frozen->members) {
      const ir::Value& value = c.graph.value(member);
      divided += element_count(value.shape) * value.slots * 2;
    }
    EXPECT_GT(divided, bytes_of_role(whole, ir::Role::frozen) / 2);  // embeddings and norms are whole
    const int64_t ahead = c.pack.frozen->rows_ahead * c.pack.row * 2;
    EXPECT_LT(std::abs(bytes_of_role(whole, ir::Role::frozen) - divided / 2 + ahead -
                       bytes_of_role(c, ir::Role::frozen)),
              8 << 10);
  }
}

// NCCL's calls run in their order: the next layer's weights are gathered before this one's gradients are
// summed, which are finished last.
TEST(SharedWeights, NoLayerWaitsForTheSumsOfTheOneBefore) {
  const Compiled c = compiled_for({});
  std::string order;
  for (const program::Section& section : function_of(c, "micro_step").sections) {
    if (section.name != "block_backward") continue;
    for (const Call& call : section.calls) {
      if (gathers_a_layer(c, call)) order += "gather ";
      if (is(call, program::Collective::reduce_scatter)) order += "sum ";
    }
  }
  EXPECT_EQ(order, "gather sum ");
}

}  // namespace
}  // namespace hydrac::driver
