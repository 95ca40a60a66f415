#include "verify/small.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "diag/diagnostic.h"
#include "spec/load.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::verify {
namespace {

using Words = std::vector<std::string>;

spec::Spec load(const std::string& file, const Words& overrides) {
  diag::Diagnostics diagnostics;
  auto spec = spec::load_spec(file, overrides, diagnostics, "h200");
  if (!spec) throw std::runtime_error(file + ": " + diagnostics.render());
  return *spec;
}

std::string shipped(const std::string& name) {
  return hydrac::test::source_dir() + "/specs/" + name + ".yaml";
}

TEST(SmallOverrides, KeepTheGroupsOfLlamaAndTheWidthOfItsHeads) {
  EXPECT_EQ(small_overrides(load(shipped("llama-1b"), {})),
            (Words{"model.num_hidden_layers=2", "model.num_attention_heads=8", "model.num_key_value_heads=2",
                   "model.hidden_size=512", "model.head_dim=64", "model.intermediate_size=2048",
                   "model.vocab_size=1024", "train.sequence_len=128", "train.micro_batch_size=2",
                   "train.gradient_accumulation_steps=2", "train.lr_scheduler.warmup_steps=1"}));
}

TEST(SmallOverrides, KeepTheCompressionOfCcgqa) {
  const auto spec = load(shipped("hydra-100m"), small_overrides(load(shipped("hydra-100m"), {})));
  EXPECT_EQ(spec.model.num_attention_heads, 6);
  EXPECT_EQ(spec.model.head_dim, 16);
  EXPECT_EQ(spec.model.ccgqa.compression, 4);
  EXPECT_EQ(spec.model.hidden_size, 6 * 16 * 4);
}

TEST(SmallOverrides, LeaveAVocabularyThatIsPaddedOdd) {
  const auto spec = load(shipped("gpt2-124m"), small_overrides(load(shipped("gpt2-124m"), {})));
  EXPECT_EQ(spec.model.vocab_size, 1031);
  EXPECT_EQ(spec.model.hidden_size, 128);
  EXPECT_EQ(spec.model.intermediate_size, 512);
}

TEST(SmallOverrides, LeaveWidthsThatAreOddOdd) {
  const auto spec = load(shipped("llama-1b"), {"model.intermediate_size=8191"});
  const Words overrides = small_overrides(spec);
  EXPECT_NE(std::ranges::find(overrides, "model.intermediate_size=2049"), overrides.end());
}

TEST(SmallOverrides, DoNotWantTheDataToCountItsCharactersOrColumns) {
  EXPECT_EQ(load(shipped("shakespeare-char"), small_overrides(load(shipped("shakespeare-char"), {})))
                .model.vocab_size,
            65);
  EXPECT_EQ(load(shipped("series"), small_overrides(load(shipped("series"), {}))).model.num_features, 5);
}

// So that three steps have sequences of three lengths, each a multiple of the first.
TEST(SmallOverrides, LetSequencesGrowToTheirWholeLength) {
  const auto overrides = [](const Words& words) {
    return small_overrides(load(shipped("gpt2-124m"), words));
  };
  const Words grown = overrides({"train.sequence_warmup={start: 256, steps: 1000}"});
  EXPECT_EQ(std::ranges::count(grown, "train.sequence_warmup.start=32"), 1);
  EXPECT_EQ(std::ranges::count(grown, "train.sequence_warmup.steps=2"), 1);
  for (const std::string& word : overrides({})) EXPECT_EQ(word.find("sequence_warmup"), std::string::npos);
}

// After three steps of a larger rate the losses would tell of rounding alone, where a step divides by it.
TEST(SmallOverrides, LowerARateThatMakesMuchOfRounding) {
  const std::string rate = "train.optimizer.learning_rate=0.0015";
  const auto overrides = [](const Words& words) {
    return small_overrides(load(shipped("polychromic"), words));
  };
  EXPECT_EQ(std::ranges::count(overrides({}), rate), 1);
  EXPECT_EQ(std::ranges::count(overrides({"train.optimizer.learning_rate=1e-3"}), rate), 0);
  EXPECT_EQ(std::ranges::count(overrides({"train.optimizer.name=sgd"}), rate), 0);
}

// Whatever is shipped: a valid spec that is the same but for its sizes, and that does not shrink further.
TEST(SmallOverrides, MakeValidSpecsOfAllThatAreShipped) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(hydrac::test::source_dir() + "/specs")) {
    if (file.path().extension() != ".yaml") continue;
    ++count;
    const spec::Spec whole = load(file.path(), {}), small = load(file.path(), small_overrides(whole));
    EXPECT_EQ(small_overrides(small), Words{}) << file.path();
    auto kept = whole.optimizations;
    if (kept.precision == spec::Precision::fp8) kept.fp8_matmuls = spec::Fp8Matmuls::all;
    EXPECT_EQ(small.optimizations, kept) << file.path();
    EXPECT_EQ(small.model.head_dim, whole.model.head_dim) << file.path();
    EXPECT_EQ(small.model.num_attention_heads / small.model.num_key_value_heads,
              whole.model.num_attention_heads / whole.model.num_key_value_heads);
    EXPECT_EQ(small.model.dropout, whole.model.dropout);
    EXPECT_EQ(small.model.qk_norm, whole.model.qk_norm);
    EXPECT_EQ(small.model.attention_bias, whole.model.attention_bias);
    EXPECT_EQ(small.model.mlp_bias, whole.model.mlp_bias);
    auto optimizer = whole.train.optimizer;
    optimizer.learning_rate = std::min<double>(optimizer.learning_rate, 1.5e-3);
    EXPECT_EQ(small.train.optimizer, optimizer) << file.path();
    EXPECT_LE(small.model.hidden_size, 1024);
    EXPECT_LE(small.train.micro_batch_size * small.train.sequence_len, 256);
  }
  EXPECT_GE(count, 8);
}

}  // namespace
}  // namespace hydrac::verify
