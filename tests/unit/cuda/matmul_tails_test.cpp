// Matmuls with a tail: which sums become one, and that they are what the two and their sum are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fused_matmuls.h"
#include "gpu_model.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::test {
namespace {

constexpr const char* kLora = "type: lora, r: 8, alpha: 16";
constexpr const char* kLlama =
    "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, num_key_value_heads: 1, "
    "intermediate_size: 24, vocab_size: 97";
constexpr const char* kTrain = "sequence_len: 45, micro_batch_size: 3";

std::vector<std::string> adapted(const GpuModel& model) {
  std::vector<std::string> names;
  for (const auto& [node, layer] : fused_matmuls(model.graph)) {
    if (passes::has_tail(*node)) names.push_back(name_of(*node));
  }
  return names;
}

GpuModel small(const char* adapter, const passes::FusedMatmuls& options,
               ir::DType activations = ir::DType::bf16) {
  return {small_spec(kLlama, kTrain, "", adapter), activations, {}, options};
}

// At sizes that are trained a block has no matmul of an adapter's but those of rank and the gradients of B,
// the activation is the end of its matmul, and so is its gradient.
TEST(MatmulTails, AreTheAdaptersOfABlock) {
  for (const bool recomputes : {false, true}) {
    const GpuModel model(shipped_spec("llama-1b", {"adapter.type=lora", "adapter.r=16"}), ir::DType::bf16,
                         {.norm = recomputes, .act = recomputes},
                         passes::FusedMatmuls{.chip = cuda::kHopper});
    ASSERT_EQ(ir::verify(model.graph), std::vector<std::string>{});
    for (const char* function : {"micro_step", "evaluate"}) {
      const Names block = nodes_of(model.graph, function, "block");
      EXPECT_EQ(std::ranges::count(block, "gemm"), 4) << testing::PrintToString(block);
      EXPECT_EQ(std::ranges::count(block, "plain_matmul"), 3);
      EXPECT_EQ(std::ranges::count(block, "matmul+swiglu"), 1);
      EXPECT_EQ(std::ranges::count(block, "add+rmsnorm"), 2);
    }
    const Names backward = nodes_of(model.graph, "micro_step", "block_backward");
    EXPECT_TRUE(std::ranges::count(backward, "matmul+swiglu_backward") ||
                std::ranges::count(backward, "matmul+swiglu+swiglu_backward"))
        << testing::PrintToString(backward);
    EXPECT_EQ(std::ranges::count(backward, "add"), 0);
  }
}

// In float32, of a tail that no stage divides, in both layouts, with biases and without.
TEST(MatmulTails, EqualTheirDefinition) {
  struct Config {
    const char* model;
    ir::DType activations;
    passes::RecomputeChoice recompute;
  };
  for (const Config& config :
       {Config{kLlama, ir::DType::bf16, {}}, Config{kLlama, ir::DType::f16, {.norm = true, .act = true}},
        Config{kGpt2, ir::DType::bf16, {}}}) {
    const GpuModel model(small_spec(config.model, kTrain, "", kLora), config.activations, config.recompute,
                         kWhereverPossible);
    ASSERT_EQ(ir::verify(model.graph), std::vector<std::string>{});
    int tails = 0;
    for (const auto& [node, layer] : fused_matmuls(model.graph)) {
      if (!passes::has_tail(*node)) continue;
      SCOPED_TRACE(to_text(model.graph, *node));
      ++tails;
      Interpreter state(model.graph);
      randomize(model, state);
      EXPECT_EQ(differences(model.graph, state, *node, layer), std::vector<std::string>{});
    }
    EXPECT_GE(tails, 6);
  }
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(difference / std::max(size, 1e-30));
}

// Up to the roundings that a sum in float32 does not have.
TEST(MatmulTails, LeaveTheGradientsOfTwoMatmuls) {
  const auto with = gradients_of(small(kLora, kWhereverPossible)),
             without = gradients_of(GpuModel(small_spec(kLlama, kTrain, "", kLora), ir::DType::bf16));
  ASSERT_FALSE(without.empty());
  for (const auto& [name, expected] : without) {
    ASSERT_TRUE(with.contains(name)) << name;
    EXPECT_LT(relative_difference(with.at(name), expected), 0.02) << name;
  }
}

TEST(MatmulTails, AreOfSixteenBitsAndOfRanksThatTheCopyEngineTakes) {
  EXPECT_FALSE(adapted(small(kLora, kWhereverPossible)).empty());
  EXPECT_TRUE(adapted(small("type: lora, r: 3, alpha: 16", kWhereverPossible)).empty());
  EXPECT_TRUE(adapted(small(kLora, kWhereverPossible, ir::DType::f32)).empty());
  EXPECT_TRUE(adapted(small(kLora, {.chip = {80, 108}, .wherever_possible = true})).empty());
  EXPECT_TRUE(adapted(small(kLora, {.chip = cuda::kHopper})).empty());  // too small to pay
}

// The input of an adapter with dropout has a gradient of its own, which is no term of a sum of matmuls.
TEST(MatmulTails, OfAnAdapterWithDropoutAreForwardOnly) {
  const GpuModel model = small("type: lora, r: 8, alpha: 16, dropout: 0.1", kWhereverPossible);
  for (const ir::Region& region : model.graph.function("micro_step").regions) {
    const auto tails = std::ranges::count_if(region.nodes, passes::has_tail);
    EXPECT_EQ(tails, region.name == "block" ? 4 : 0) << region.name;
  }
}

TEST(MatmulTails, FollowWhatTheSpecAsksByName) {
  using List = std::vector<std::string>;
  const auto count = [](const List& own, const List& library, const char* of = kLlama) {
    passes::FusedMatmuls options{.chip = cuda::kHopper};
    options.own = own, options.library = library;
    const GpuModel model(small_spec(of, kTrain, "", kLora), ir::DType::bf16, {}, options);
    const std::vector<ir::Node>& block = model.graph.function("micro_step").regions[1].nodes;
    return std::ranges::count_if(block, passes::has_tail);
  };
  const List none, all = {"*"};
  EXPECT_EQ(count({"mlp.up"}, none), 1);
  EXPECT_EQ(count({"mlp.up"}, all), 1);
  EXPECT_EQ(count(all, none), 4);
  EXPECT_EQ(count({"mlp.up.base"}, none), 0);
  EXPECT_EQ(count(none, all), 0);
  EXPECT_EQ(count({"mlp.up.matmul"}, none, kGpt2), 1);  // whose bias is added behind it
  EXPECT_EQ(count(all, {"mlp.up.matmul"}, kGpt2), 4);
  EXPECT_EQ(count({"mlp.up", "mlp.out"}, {"*.matmul"}, kGpt2), 2);
}

}  // namespace
}  // namespace hydrac::test
