// optimizations.offload.activations: what the backward pass reads comes back from the host as it was, ahead
// of its use, and the plan of both memories is smaller and larger by that.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "driver/accesses.h"
#include "driver/compile.h"
#include "program/for_each_call.h"
#include "program/queues.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using program::Call;
using program::Queue;

constexpr int kOffloadLayers = 5;

Compiled offloading(std::vector<std::string> overrides, bool offload = true) {
  if (offload) overrides.emplace_back("optimizations.offload.activations=true");
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: a100\n"
      "model: {hidden_size: 256, num_hidden_layers: 5, num_attention_heads: 4, vocab_size: 512}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 256, micro_batch_size: 16, max_steps: 10}\n",
      overrides);
  return compile(spec, CompileOptions{});
}

const std::vector<std::vector<std::string>> kVariants = {
    {},
    {"model.norm=layernorm", "model.hidden_act=gelu", "model.attention_bias=true"},
    {"optimizations.recompute=[norm, act]", "optimizations.loss=fused_linear", "model.vocab_size=200000"},
    {"optimizations.recompute=block", "optimizations.recompute_layers=2"},
    {"target=h100", "optimizations.residual=compute", "model.qk_norm=true"},
    {"target=gtx1650ti", "optimizations.offload.optimizer_state=true", "model.dropout=0.1"},
    {"target=h100", "optimizations.precision=fp8", "optimizations.fp8_matmuls=all"},
    {"train.gradient_accumulation_steps=2", "model.num_key_value_heads=2", "optimizations.streams=1"},
    {"model.sliding_window=64", "model.sliding_window_pattern=2"}};

// What lies in the arena: for each 256 bytes, a number that stands for whatever wrote them and all that this
// was made of.
class Contents {
 public:
  explicit Contents(const Compiled& compiled)
      : c_(compiled), tags_(compiled.plan.arena_bytes / 256 + 1), owners_(tags_.size()) {}

  // The calls' own numbers leave out copies, which only move what is there.
  void run(const std::string& function) {
    const auto found = std::ranges::find(c_.program.functions, function, &program::Function::name);
    program::for_each_call(*found, [&](const program::Section&, const Call& call, int, int layer) {
      if (program::is<program::Copy>(call)) return copy(call, layer);
      size_t made = ++number_;
      for (const ir::Use use : call.operands) made = mixed(made, tag(use, layer));
      for (const ir::Use use : call.results) write(use, layer, made = mixed(made, 1));
    });
  }

  size_t tag(ir::Use use, int layer) const {
    size_t all = 0;
    for (auto [at, last] = range(use, layer); at < last; ++at) all = mixed(all, tags_[at]);
    return all;
  }

 private:
  using Owner = std::pair<ir::ValueId, int>;  // a storage and its slot

  static size_t mixed(size_t a, size_t b) { return (a * 0x9E3779B97F4A7C15u ^ b) * 0xC2B2AE3D27D4EB4Fu + 1; }

  std::pair<size_t, size_t> range(ir::Use use, int layer) const {
    const int64_t first = plan::address(c_.graph, c_.plan, use, layer);
    return {static_cast<size_t>(first / 256),
            static_cast<size_t>((first + plan::extent(c_.graph, use) + 255) / 256)};
  }

  // What is written in parts keeps a trace of the parts before, and gradients of what they are added to.
  void write(ir::Use use, int layer, size_t made) {
    const Owner owner{storage_of(c_.graph, use.value), storage_slot(c_.graph, use).at(layer)};
    for (auto [at, last] = range(use, layer); at < last; ++at) {
      tags_[at] = owners_[at] == owner ? mixed(tags_[at], made) : made;
      owners_[at] = owner;
    }
  }

  void copy(const Call& call, int layer) {
    const auto [from, end] = range(call.arguments[0], layer);
    const auto [to, to_end] = range(call.arguments[1], layer);
    ASSERT_EQ(end - from, to_end - to);
    const ir::Use use = call.arguments[1];
    const Owner owner{storage_of(c_.graph, use.value), storage_slot(c_.graph, use).at(layer)};
    for (size_t i = 0; i < end - from; ++i) {
      tags_[to + i] = tags_[from + i];
      owners_[to + i] = owner;
    }
  }

  const Compiled& c_;
  std::vector<size_t> tags_;
  std::vector<Owner> owners_;
  size_t number_ = 0;
};

TEST(OffloadActivations, LeavesEveryGradientMadeOfTheSame) {
  for (const auto& variant : kVariants) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(variant, " ")));
    const Compiled plain = offloading(variant, false), moved = offloading(variant);
    Contents kept(plain), back(moved);
    kept.run("micro_step");
    back.run("micro_step");
    ASSERT_EQ(plain.pack.groups.size(), moved.pack.groups.size());
    for (size_t g = 0; g < plain.pack.groups.size(); ++g)
      EXPECT_EQ(kept.tag({plain.pack.groups[g].gradients, {}}, 0),
                back.tag({moved.pack.groups[g].gradients, {}}, 0));
    EXPECT_EQ(kept.tag({plain.graph.results.loss, {}}, 0), back.tag({moved.graph.results.loss, {}}, 0));
  }
}

std::vector<ir::ValueId> values_ending(const Compiled& c, std::string_view ending) {
  std::vector<ir::ValueId> ids;
  for (const ir::Value& value : c.graph.values)
    if (value.name.ends_with(ending) && !value.view) ids.push_back(value.id);
  return ids;
}

TEST(OffloadActivations, LeavesARingOfSlotsOnTheGpu) {
  for (const auto& variant : kVariants) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(variant, " ")));
    const Compiled plain = offloading(variant, false), moved = offloading(variant);
    EXPECT_LT(moved.plan.device_bytes(), plain.plan.device_bytes());
    EXPECT_GT(moved.plan.host_bytes, plain.plan.host_bytes);
    int64_t bytes = 0;
    for (const ir::ValueId id : values_ending(moved, ".host"))
      bytes += moved.plan.placements.at(id).slot_bytes * (moved.graph.value(id).slots);
    EXPECT_GE(moved.plan.host_bytes - plain.plan.host_bytes, bytes - plan::kPage);
    EXPECT_LE(moved.plan.host_bytes - plain.plan.host_bytes, bytes + plan::kPage);
    for (const ir::ValueId id : values_ending(moved, ".back"))
      EXPECT_LE(moved.plan.placements.at(id).slots, 2) << moved.graph.value(id).name;
  }
}

// A fetch waits for the last reader of its memory; from there to the first reader of what it fetches most of
// a layer is computed.
TEST(OffloadActivations, FetchesALayerAheadBesideTheOtherCalls) {
  const Compiled c = offloading({});
  const auto function = std::ranges::find(c.program.functions, "micro_step", &program::Function::name);
  std::vector<program::QueueStep> steps;
  std::vector<const Call*> calls;
  std::vector<bool> in_loop;
  int loop_calls = 0;  // of an iteration, on the main queue
  program::for_each_call(
      *function, [&](const program::Section& section, const Call& call, int iteration, int layer) {
        steps.push_back({accesses(c, call, layer), call.queue});
        calls.push_back(&call);
        in_loop.push_back(section.name == "block_backward" && iteration + 1 < section.layers);
        loop_calls += section.name == "block_backward" && iteration == 0 && call.queue == Queue::main;
      });
  const auto waits = program::waits_between_queues(steps);
  int fetches = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool is_copy = program::is<program::Copy>(*calls[i]);
    EXPECT_EQ(calls[i]->queue == Queue::host_copies, is_copy);
    if (!is_copy || !in_loop[i]) continue;
    ++fetches;
    int beside = 0;  // calls of the main queue until one reads what was fetched
    const program::Access made = steps[i].accesses[1];
    for (size_t j = i + 1; j < steps.size(); ++j) {
      beside += steps[j].queue == Queue::main;
      if (steps[j].queue != Queue::host_copies &&
          std::ranges::any_of(steps[j].accesses, [&](const program::Access& access) {
            return access.first < made.last && made.first < access.last;
          }))
        break;
    }
    EXPECT_GE(beside, loop_calls / 2) << calls[i]->label;
  }
  EXPECT_EQ(fetches % (kOffloadLayers - 1), 0);
  EXPECT_GT(fetches, 0);
}

TEST(OffloadActivations, OfOneStreamAreCopiesAmongTheOtherCalls) {
  const Compiled c = offloading({"optimizations.streams=1"});
  for (const program::Function& function : c.program.functions)
    for (const program::Section& section : function.sections)
      for (const Call& call : section.calls) EXPECT_EQ(call.queue, Queue::main);
}

TEST(OffloadActivations, LeaveOutTheResidualStreamAndWhatIsSmall) {
  const Compiled c = offloading({});
  for (const ir::ValueId id : values_ending(c, ".host")) {
    const ir::Value& value = c.graph.value(id);
    EXPECT_GE(element_count(value.shape) * size_of(value.dtype), 1 << 20) << value.name;
    EXPECT_NE(value.name, "residual.host");
  }
  EXPECT_TRUE(values_ending(offloading({"train.micro_batch_size=1"}), ".host").empty());
}

}  // namespace
}  // namespace hydrac::driver
