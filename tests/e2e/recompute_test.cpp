// Options that only say how results are computed change no bit of them. (The number of threads is none of
// these: the matrix library sums in another order.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// The arena's bytes as `check` prints them.
int64_t arena_bytes(const Workplace& place, const std::string& recompute) {
  const Outcome outcome = place.run({"check", "base.yaml", "optimizations.recompute=" + recompute});
  const size_t at = outcome.out.find("\narena");
  return at == std::string::npos ? -1 : std::stoll(outcome.out.substr(at + 6));
}

class Recompute : public testing::TestWithParam<const char*> {};

TEST_P(Recompute, ChangesNoBitOfTheResult) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "model.qk_norm=true", "output.dir=runs/none"}).code, 0);
  const std::string key = std::string("optimizations.recompute=") + GetParam();
  const Outcome outcome = place.run({"-q", "base.yaml", "model.qk_norm=true", key});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(slurp(place / "runs/base/checkpoint-12/model.safetensors") ==
              slurp(place / "runs/none/checkpoint-12/model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Modes, Recompute,
                         testing::Values("block", "[norm]", "[act]", "[attn]", "[mlp]",
                                         "[norm, act, attn, mlp]", "[norm, qk_norm]"));

// Of some layers: with dropout and two micro-batches a step, and with what treats layers in ways of its own.
struct SomeLayers {
  const char* name;
  Words overrides;
};

class RecomputeOfSomeLayers : public testing::TestWithParam<SomeLayers> {};

TEST_P(RecomputeOfSomeLayers, ChangesNoBitOfTheResult) {
  const Workplace place;
  std::string documents;
  for (int line = 0; line < 120; ++line)
    documents += fmt::format("{{\"text\": \"{}\"}}\n",
                             std::string(static_cast<size_t>(5 + line * 7 % 40), 'a' + line % 26));
  test::spill(place / "documents.jsonl", documents);
  const Words words =
      with({"-q", "base.yaml", "model.num_hidden_layers=4", "train.max_steps=4"}, GetParam().overrides);
  ASSERT_EQ(place.run(with(words, {"output.dir=runs/none"})).code, 0);
  for (const auto& [what, layers] : {std::pair("block", 1), {"block", 3}, {"[norm, act]", 2}}) {
    const Outcome outcome = place.run(
        with(words, {fmt::format("optimizations.recompute={}", what),
                     fmt::format("optimizations.recompute_layers={}", layers), "output.dir=runs/some"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const fs::path some = place / "runs/some/checkpoint-4", none = place / "runs/none/checkpoint-4";
    int compared = 0;
    for (const std::string& file : files_below(none)) {
      if (!file.ends_with(".safetensors")) continue;
      ++compared;
      EXPECT_TRUE(slurp(some / file) == slurp(none / file)) << file << " with " << what << " in " << layers;
    }
    EXPECT_GE(compared, 2);
    fs::remove_all(place / "runs/some");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, RecomputeOfSomeLayers,
    testing::Values(SomeLayers{"Plain", {}},
                    SomeLayers{"FrozenLayers", {"train.freeze=[model.layers.0.*, model.layers.2.*]"}},
                    SomeLayers{"Windows", {"model.sliding_window=5", "model.sliding_window_pattern=2"}},
                    SomeLayers{"Documents", {"data.path=documents.jsonl", "data.document_mask=true"}},
                    SomeLayers{"HeadInParts", {"optimizations.loss=fused_linear", "model.qk_norm=true"}},
                    SomeLayers{"Adapter", {"adapter.type=lora", "adapter.dropout=0.1"}},
                    SomeLayers{"TwoRanks", {"parallel.data=2", "train.gradient_accumulation_steps=1"}},
                    SomeLayers{
                        "SharedWeights",
                        {"parallel.data=2", "parallel.zero=3", "train.gradient_accumulation_steps=1"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RecomputeMemory, FallsWithEachLayer) {
  const Workplace place;
  const auto bytes = [&](int layers) {
    const Outcome outcome =
        place.run({"check", "base.yaml", "model.num_hidden_layers=6", "train.micro_batch_size=16",
                   fmt::format("optimizations.recompute={}", layers == 0 ? "none" : "block"),
                   fmt::format("optimizations.recompute_layers={}", layers)});
    return std::stoll(outcome.out.substr(outcome.out.find("\narena") + 6));
  };
  int64_t before = bytes(0);
  for (int layers = 1; layers <= 5; ++layers) {
    const int64_t now = bytes(layers);
    EXPECT_LT(now, before) << layers;
    before = now;
  }
  EXPECT_LE(bytes(6), before);
}

TEST(RecomputeMemory, TheWholeBlockNeedsLessThanNone) {
  const Workplace place;
  const int64_t none = arena_bytes(place, "none"), block = arena_bytes(place, "block");
  EXPECT_GT(block, 0);
  EXPECT_LT(block, none);
}

TEST(Dump, WritingTheStagesChangesNoBitOfTheResult) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  ASSERT_EQ(place.run({"-q", "base.yaml", "--dump", "stages", "output.dir=runs/dumped"}).code, 0);
  EXPECT_TRUE(fs::exists(place / "stages/01-graph.txt"));
  EXPECT_TRUE(slurp(place / "runs/base/checkpoint-12/model.safetensors") ==
              slurp(place / "runs/dumped/checkpoint-12/model.safetensors"));
}

}  // namespace
}  // namespace hydrac::e2e
