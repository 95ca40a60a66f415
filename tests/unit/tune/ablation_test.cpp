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

TEST(Ablation, KnowsNoOtherNames) {
  const auto keys = keys_of("h100");
  EXPECT_THROW(variants_of(optimizations_of(keys), keys, {"loss+magic"}), runtime::InputError);
}

}  // namespace
}  // namespace hydrac::tune
