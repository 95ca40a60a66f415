// Programs larger than the memory they may take are refused before anything runs, with what would fit;
// `recompute: auto` and a head in parts change what a program needs.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

int64_t arena_bytes(const Workplace& place, Words words) {
  words.insert(words.begin(), {"check", "base.yaml"});
  const Outcome outcome = place.run(words);
  const size_t at = outcome.out.find("\narena");
  return at == std::string::npos ? -1 : std::stoll(outcome.out.substr(at + 6));
}

// As --memory takes it, exactly.
std::string gib(int64_t bytes) {
  return fmt::format("{:.20f}", static_cast<double>(bytes) / 0x1p30);
}

TEST(Memory, WhatFitsToTheByteRunsAndAByteLessDoesNot) {
  const Workplace place;
  const int64_t bytes = arena_bytes(place, {});
  ASSERT_GT(bytes, 0);
  EXPECT_EQ(place.run({"check", "base.yaml", "--memory", gib(bytes)}).code, 0);
  for (const char* verb : {"check", "explain", "run"}) {
    const Outcome outcome = place.run({verb, "base.yaml", "--memory", gib(bytes - 1)});
    EXPECT_EQ(outcome.code, 2) << verb;
    EXPECT_NE(outcome.err.find("error: the program needs "), std::string::npos) << verb << outcome.err;
  }
  EXPECT_FALSE(fs::exists(place / "runs/base/metrics.jsonl"));
}

TEST(Memory, TheRefusalPointsAtTheBatchAndWhatItNamesFits) {
  const Workplace place;
  const std::string limit = gib(arena_bytes(place, {"optimizations.recompute=[norm]"}));
  const Outcome refused = place.run({"check", "base.yaml", "--memory", limit});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(refused.err.starts_with("base.yaml:")) << refused.err;
  EXPECT_NE(refused.err.find(" [out-of-memory]\n"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("micro_batch_size: "), std::string::npos) << refused.err;
  const size_t named = refused.err.find("optimizations.recompute: [");
  ASSERT_NE(named, std::string::npos) << refused.err;
  std::string list = refused.err.substr(named, refused.err.find(']', named) + 1 - named);
  list.replace(list.find(": "), 2, "=");
  EXPECT_EQ(place.run({"check", "base.yaml", "--memory", limit, list}).code, 0) << list;
}

TEST(Memory, RefusesAnAmountThatIsNone) {
  const Workplace place;
  for (const char* amount : {"x", "0", "-1", "1e9", "4GiB", "nan"}) {
    const Outcome outcome = place.run({"check", "base.yaml", fmt::format("--memory={}", amount)});
    EXPECT_EQ(outcome.code, 2) << amount;
    EXPECT_EQ(outcome.err, fmt::format("hydrac: error: --memory: \"{}\" is no number of GiB\n", amount));
  }
  EXPECT_EQ(place.run({"check", "base.yaml", "--memory="}).err,
            "hydrac: error: --memory needs a value: GIB\n");
}

TEST(RecomputeAuto, ChangesNoBitOfTheResultAndIsExplained) {
  const Workplace place;
  const std::string limit = gib(arena_bytes(place, {"optimizations.recompute=[norm, act]"}));
  const Words fitted = {"base.yaml", "optimizations.recompute=auto", "--memory", limit};
  Words explain = fitted;
  explain.insert(explain.begin(), "explain");
  const Outcome explained = place.run(explain);
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_NE(explained.out.find("\nrecompute: auto\n  to fit "), std::string::npos);
  EXPECT_NE(explained.out.find("fits: taken\n"), std::string::npos);
  Words run = fitted;
  run.insert(run.begin(), "-q");
  ASSERT_EQ(place.run(run).code, 0);
  ASSERT_EQ(place.run({"-q", "base.yaml", "output.dir=runs/none"}).code, 0);
  EXPECT_TRUE(slurp(place / "runs/base/checkpoint-12/model.safetensors") ==
              slurp(place / "runs/none/checkpoint-12/model.safetensors"));
}

TEST(RecomputeAuto, KeepsEverythingOnAMachineWithRoom) {
  const Workplace place;
  EXPECT_EQ(arena_bytes(place, {"optimizations.recompute=auto"}), arena_bytes(place, {}));
}

// 16 x 64 rows of 16411 logits are 64 MiB, and a part's on cpu at most 32.
TEST(HeadInParts, NeedsLessMemory) {
  const Workplace place;
  const Words large = {"model.vocab_size=16411", "train.micro_batch_size=16", "train.sequence_len=64"};
  Words parts = large;
  parts.push_back("optimizations.loss=fused_linear");
  EXPECT_LT(arena_bytes(place, parts) + (40 << 20), arena_bytes(place, large));
}

}  // namespace
}  // namespace hydrac::e2e
