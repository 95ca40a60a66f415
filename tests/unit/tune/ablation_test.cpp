// Rows of an ablation: each optimization by itself, on a plain program and missing from the spec.
#include "tune/ablation.h"

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace hydrac::tune {
namespace {

std::map<std::string, std::string> keys_of(const std::string& target) {
  std::map<std::string, std::string> keys = {{"name", "\"a\""}, {"target", "\"" + target + "\""}};
  for (const char* fp32 : {"precision", "residual", "weights", "gradients", "optimizer_state"})
    keys[std::string("optimizations.") + fp32] = "\"fp32\"";
  keys["optimizations.fp8_head"] = keys["optimizations.fp8_attention"] = "false";
  keys["optimizations.attention"] = "\"generated\"";
  keys["optimizations.fused_matmuls"] = "\"none\"";
  for (const char* kernel : {"forward", "dq", "dkv"})
    keys[std::string("optimizations.attention_tiles.") + kernel] = "\"auto\"";
  keys["optimizations.own_matmuls"] = keys["optimizations.library_matmuls"] = "[]";
  keys["optimizations.loss"] = "\"fused_linear\"";
  keys["optimizations.recompute"] = "[\"norm\",\"act\"]";
  keys["optimizations.offload.optimizer_state"] = keys["optimizations.offload.activations"] = "false";
  keys["optimizations.offload.weights"] = "0";
  keys["optimizations.cuda_graph"] = "false";
  keys["optimizations.streams"] = "1";
  keys["optimizations.threads"] = "0";
  return keys;
}

std::vector<std::string> names(const std::vector<Variant>& variants) {
  std::vector<std::string> names;
  for (const Variant& variant : variants) names.push_back(variant.name);
  return names;
}

TEST(Ablation, AddsAndTakesAwayOneAtATime) {
  const auto keys = keys_of("h100");
  const auto variants = variants_of(optimizations_of(keys), keys, {"loss+recompute"});
  EXPECT_EQ(names(variants), (std::vector<std::string>{
                                 "plain fp32", "plain + loss fused_linear", "plain + recompute [norm,act]",
                                 "plain + loss+recompute", "the spec (a)", "without loss fused_linear",
                                 "without recompute [norm,act]"}));
  EXPECT_EQ(variants[0].overrides, (std::vector<std::string>{"optimizations.loss=\"materialized\"",
                                                             "optimizations.recompute=\"none\""}));
  EXPECT_EQ(variants[2].overrides.back(), "optimizations.recompute=[\"norm\",\"act\"]");
  EXPECT_TRUE(variants[4].overrides.empty());
  EXPECT_EQ(variants[5].overrides, std::vector<std::string>{"optimizations.loss=\"materialized\""});
}

TEST(Ablation, OfACpuCountsItsThreadsAndMoments) {
  auto keys = keys_of("cpu");
  ASSERT_EQ(optimizations_of(keys).size(), 3u);
  keys["optimizations.optimizer_state"] = "\"int8\"";
  const auto list = optimizations_of(keys);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[2].name, "optimizer_state");
  EXPECT_EQ(list[3].name, "threads");
}

TEST(Ablation, TakesAwayWhatALockFileMaySay) {
  auto keys = keys_of("h100");
  keys["optimizations.attention_tiles.dkv"] = "\"128x64\"";
  keys["optimizations.own_matmuls"] = "[\"mlp.up\"]";
  const auto list = optimizations_of(keys);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].name, "attention_tiles.dkv");
  EXPECT_EQ(list[1].plain, "[]");
}

TEST(Ablation, TakesMomentsOffTheHost) {
  auto keys = keys_of("h100");
  keys["optimizations.offload.optimizer_state"] = "0.5";
  const auto list = optimizations_of(keys);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[2].name, "offload.optimizer_state");
  EXPECT_EQ(variants_of(list, keys, {}).front().overrides.back(),
            "optimizations.offload.optimizer_state=false");
}

// Values that the spec has not, also of keys that are no optimization; "optimizations." may be left out.
TEST(Ablation, CombinesKeysWithValuesOfTheirOwn) {
  auto keys = keys_of("h100");
  keys["train.micro_batch_size"] = "8";
  const auto variants =
      variants_of(optimizations_of(keys), keys,
                  {"loss+recompute=block+optimizer_state=int8", "train.micro_batch_size=16"});
  EXPECT_EQ(variants[3].name, "plain + loss+recompute=block+optimizer_state=int8");
  EXPECT_EQ(
      variants[3].overrides,
      (std::vector<std::string>{"optimizations.loss=\"materialized\"", "optimizations.recompute=\"none\"",
                                "optimizations.loss=\"fused_linear\"", "optimizations.recompute=block",
                                "optimizations.optimizer_state=int8"}));
  EXPECT_EQ(variants[4].overrides.back(), "train.micro_batch_size=16");
}

TEST(Ablation, KnowsNoOtherNames) {
  const auto keys = keys_of("h100");
  for (const char* unknown : {"loss+magic", "loss+magic=1", "", "loss+"})
    EXPECT_THROW(variants_of(optimizations_of(keys), keys, {unknown}), runtime::InputError) << unknown;
}

TEST(Ablation, TellsAnEffectFromTheSpreadOfTurns) {
  const Speedup faster = speedup_of({4, 5, 5}, {10, 10, 12});
  EXPECT_DOUBLE_EQ(faster.median, 2.4);
  EXPECT_DOUBLE_EQ(faster.least, 2);
  EXPECT_DOUBLE_EQ(faster.most, 2.5);
  EXPECT_FALSE(faster.within_spread);
  EXPECT_TRUE(speedup_of({9, 10, 11}, {10.9, 12, 13}).within_spread);
  EXPECT_FALSE(speedup_of({12, 13, 14}, {9, 10, 11}).within_spread);
  // One that is slow in every turn by the machine's fault is compared with its neighbour.
  EXPECT_DOUBLE_EQ(speedup_of({10, 20, 30}, {10, 20, 30}).least, 1);
}

}  // namespace
}  // namespace hydrac::tune
