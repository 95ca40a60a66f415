// optimizations.offload.weights: the last layers' matrices lie in the host's memory as matmuls read them, and
// each layer's are on the GPU when it reads them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "driver/compile.h"
#include "models/freeze.h"
#include "program/for_each_call.h"
#include "program/queues.h"
#include "tests/unit/driver/fetched_weights.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using program::Call;
using Words = std::vector<std::string>;

constexpr int kAllLayers = 5, kMatrices = 4;

Compiled with_weights_on_host(int layers, Words overrides = {}) {
  overrides.push_back(fmt::format("optimizations.offload.weights={}", layers));
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 256, num_hidden_layers: 5, num_attention_heads: 4, vocab_size: 512}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, micro_batch_size: 16, max_steps: 10}\n",
      overrides);
  return compile(spec, CompileOptions{});
}

const std::vector<Words> kHostVariants = {
    {},
    {"optimizations.precision=fp16", "model.norm=layernorm", "model.attention_bias=true",
     "model.mlp_bias=true"},
    {"optimizations.recompute=block", "optimizations.loss=fused_linear",
     "train.gradient_accumulation_steps=2"},
    {"optimizations.recompute=[norm, act]", "optimizations.recompute_layers=3"},
    {"optimizations.offload.activations=true", "optimizations.offload.optimizer_state=true",
     "train.sequence_len=512"},
    {"optimizations.gradients=compute", "optimizations.optimizer_state=int8", "optimizations.streams=1"},
    {"adapter.type=lora", "optimizations.fused_matmuls=all"},
    {"parallel.data=2"}};

bool is_on_host(const Compiled& c, int64_t address) {
  return address >= c.plan.device_bytes() && address < c.plan.arena_bytes;
}

ir::ValueId held_for(const Compiled& c, ir::Use use) {
  const std::string parameter = parameter_of(c, use);
  const ir::ValueId copy = c.graph.find(fmt::format("{}.{}", parameter, to_string(c.graph.value(use).dtype)));
  return copy == ir::kNoValue ? c.graph.find(parameter) : copy;
}

// Returns how often layers read weights that the host holds, of which each must be that layer's own.
int check_reads_of_host(const Compiled& c, const std::string& name) {
  Fetched fetched(c);
  int reads = 0;
  program::for_each_call(
      function_of(c, name), [&](const program::Section& section, const Call& call, int, int layer) {
        fetched.run(call, layer);
        if (program::is<program::Copy>(call)) return;
        for (const program::Access& access : accesses(c, call, layer))
          EXPECT_TRUE(!is_on_host(c, access.first) || call.label.find("weight") == std::string::npos)
              << call.label;
        for (const ir::Use use : call.operands) {
          if (!is_of_layer(c, use)) continue;
          ++reads;
          const int slot = parameter_slot(c, use, section, layer);
          const int64_t held = plan::address(c.graph, c.plan, {held_for(c, use), {false, slot}}, 0);
          EXPECT_TRUE(is_on_host(c, held)) << call.label;
          EXPECT_EQ(fetched.origin(use, layer), held) << call.label << " of layer " << layer;
        }
      });
  return reads;
}

TEST(OffloadedWeights, ALayersAreThereWhenItReadsThem) {
  for (const Words& variant : kHostVariants) {
    for (const int layers : {1, 3, kAllLayers}) {
      SCOPED_TRACE(fmt::format("{} layers, {}", layers, fmt::join(variant, " ")));
      const Compiled c = with_weights_on_host(layers, variant);
      EXPECT_GE(check_reads_of_host(c, "micro_step"), 2 * layers * kMatrices);
      EXPECT_EQ(check_reads_of_host(c, "evaluate"), layers * kMatrices);
      EXPECT_EQ(check_reads_of_host(c, "generate"), layers * kMatrices);
    }
  }
}

// Memory for two layers, of which one is copied while the other computes, by a queue of its own.
TEST(OffloadedWeights, AreCopiedWhileTheLayerBeforeComputes) {
  const Compiled c = with_weights_on_host(4);
  for (const ir::Value& value : c.graph.values) {
    if (!value.name.starts_with("weights.") || value.view) continue;
    EXPECT_EQ(c.plan.placements.at(value.id).slots, 2) << value.name;
  }
  std::vector<program::QueueStep> steps;
  std::vector<int> layers;
  std::vector<const program::Section*> sections;
  program::for_each_call(
      function_of(c, "micro_step"), [&](const program::Section& section, const Call& call, int, int layer) {
        EXPECT_EQ((call.queue == program::Queue::host_copies), program::is<program::Copy>(call));
        steps.push_back({accesses(c, call, layer), call.queue});
        layers.push_back(layer);
        sections.push_back(&section);
      });
  const auto waits = program::waits_between_queues(steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].queue != program::Queue::host_copies) continue;
    for (const int awaited : waits[i]) {
      const auto j = static_cast<size_t>(awaited);
      if (sections[i] != sections[j]) continue;
      EXPECT_EQ(std::abs(layers[i] - layers[j]), 2);
    }
  }
}

// By the function that makes all copies anew, piece by piece.
TEST(OffloadedWeights, EveryCopyIsMadeOfItsParameter) {
  const Compiled c = with_weights_on_host(2, {"model.attention_bias=true", "model.hidden_size=192"});
  const auto address = [&](ir::Use use) { return plan::address(c.graph, c.plan, use, 0); };
  struct Piece {
    int64_t end, copies;
  };
  std::map<int64_t, Piece> pieces;  // by their first element in the pack of parameters
  program::for_each_call(function_of(c, "load"), [&](const program::Section&, const Call& call, int, int) {
    const int64_t first = (address(call.operands[0]) - address({c.pack.parameters, {}})) / 4;
    pieces[first] = {first + element_count(c.graph.value(call.operands[0]).shape), address(call.results[0])};
  });
  EXPECT_GT(pieces.size(), 2u * kMatrices);
  int checked = 0;
  for (const ir::Value& value : c.graph.values) {
    const ir::ValueId copy = c.graph.find(value.name + ".bf16");
    if (!value.trains() || copy == ir::kNoValue) continue;
    for (int slot = 0; slot < value.slots; ++slot, ++checked) {
      const int64_t element = value.view->offset + slot * value.view->slot_stride;
      const auto piece = std::prev(pieces.upper_bound(element));
      EXPECT_LE(element + element_count(value.shape), piece->second.end) << value.name;
      EXPECT_EQ(address({copy, {false, slot}}), piece->second.copies + (element - piece->first) * 2)
          << value.name;
    }
  }
  EXPECT_GE(checked, kAllLayers * (kMatrices + 1) + 1);
}

// In the pack of parameters, and so in that of moments: gradients' norms add up in one order.
TEST(OffloadedWeights, ParametersLieWhereTheyDoWithout) {
  const auto places = [](const Compiled& c) {
    std::map<std::string, int64_t> places;
    for (const ir::Value& value : c.graph.values)
      if (value.parameter)
        for (const ir::CheckpointPart& part : value.parameter->checkpoint)
          for (int slot = part.first_slot; slot <= part.last_slot; ++slot)
            places[models::tensor_name(value, part, slot)] =
                value.view->offset + slot * value.view->slot_stride;
    return places;
  };
  EXPECT_EQ(places(with_weights_on_host(2)), places(with_weights_on_host(0)));
}

TEST(OffloadedWeights, TheGpuHasTheOthersAlone) {
  const auto copies = [](const Compiled& c) {
    int64_t bytes = 0;
    for (const auto& [id, placement] : c.plan.placements)
      if (c.graph.value(id).role == ir::Role::working_copy && !c.graph.value(id).on_host)
        bytes += placement.bytes();
    return bytes;
  };
  const Compiled none = with_weights_on_host(0), two = with_weights_on_host(2);
  const int64_t layer = (copies(none) - copies(two)) / 2;
  EXPECT_EQ(copies(with_weights_on_host(kAllLayers)), copies(none) - kAllLayers * layer);
  EXPECT_EQ(none.plan.host_bytes, 0);
  EXPECT_GE(two.plan.host_bytes, 2 * layer);
  EXPECT_LT(two.plan.host_bytes, 2 * layer + plan::kPage);
}

}  // namespace
}  // namespace hydrac::driver
