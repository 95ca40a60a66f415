// Options that only say how results are computed change no bit of them. (The number of threads is none of
// these: the matrix library sums in another order.)
#include <gtest/gtest.h>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// The arena's bytes as `check` prints them.
int64_t arena_bytes(const Workplace& place, const std::string& recompute) {
  const Outcome outcome = place.run({"check", "base.yaml", "optimizations.recompute=" + recompute});
  const size_t at = outcome.out.find("\n# arena");
  return at == std::string::npos ? -1 : std::stoll(outcome.out.substr(at + 8));
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
