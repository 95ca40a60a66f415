// `hydrac sample`: text from a run that has ended.
#include <gtest/gtest.h>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

// A run that all tests here read and none writes to.
class Sample : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    ASSERT_EQ(place_->run({"-q", "base.yaml"}).code, 0);
  }
  static void TearDownTestSuite() {
    delete place_;
    place_ = nullptr;
  }
  static std::string sample(const Words& options) {
    Words words = {"sample", "runs/base", "--threads", "1", "--max-new-tokens", "12"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome outcome = place_->run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  }
  static inline Workplace* place_ = nullptr;
};

TEST_F(Sample, IsTheSameTwiceAtTemperatureZero) {
  const std::string first = sample({"--temperature", "0", "--prompt", "line 1"});
  EXPECT_EQ(sample({"--temperature", "0", "--prompt", "line 1"}), first);
}

TEST_F(Sample, BeginsWithThePrompt) {
  const std::string text = sample({"--prompt", "say \"a\\b\": \xc3\xa4"});
  EXPECT_TRUE(text.starts_with("say \"a\\b\": \xc3\xa4")) << text;
}

TEST_F(Sample, DependsOnTheSeedAndOnNothingElse) {
  const std::string first = sample({"--temperature", "1", "--seed", "5"});
  EXPECT_EQ(sample({"--temperature", "1", "--seed", "5"}), first);
  EXPECT_NE(sample({"--temperature", "1", "--seed", "6"}), first);
}

TEST_F(Sample, AmongTheOneLikeliestTokenIsGreedy) {
  EXPECT_EQ(sample({"--top-k", "1", "--prompt", "the fox"}),
            sample({"--temperature", "0", "--prompt", "the fox"}));
}

TEST_F(Sample, LeavesTheRunAsItIs) {
  const Words before = files_below(place_->path());
  sample({"--prompt", "line"});
  EXPECT_EQ(files_below(place_->path()), before);
}

TEST_F(Sample, FollowsARunThatWasMoved) {
  const std::string first = sample({"--temperature", "0", "--prompt", "line 1"});
  const Workplace elsewhere;
  fs::copy(*place_ / "runs/base", elsewhere / "moved", fs::copy_options::recursive);
  fs::remove(elsewhere / "corpus.txt");
  const Outcome outcome = elsewhere.run({"sample", "moved", "--threads", "1", "--max-new-tokens", "12",
                                         "--temperature", "0", "--prompt", "line 1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, first);
}

TEST_F(Sample, TakesTheCheckpointThatIsNamed) {
  const Workplace elsewhere;
  fs::copy(*place_ / "runs/base", elsewhere / "moved", fs::copy_options::recursive);
  const auto sample_of = [&](const std::string& folder) {
    return elsewhere.run(
        {"sample", folder, "--threads", "1", "--max-new-tokens", "40", "--temperature", "1"});
  };
  const Outcome named = sample_of("moved/checkpoint-4/");
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out, sample_of("moved").out);
  for (const int later : {6, 8, 10, 12})
    fs::remove_all(elsewhere / ("moved/checkpoint-" + std::to_string(later)));
  EXPECT_EQ(sample_of("moved").out, named.out);
  fs::resize_file(elsewhere / "moved/checkpoint-4/model.safetensors", 100);
  const Outcome damaged = sample_of("moved/checkpoint-4");
  EXPECT_EQ(damaged.code, 2);
  EXPECT_TRUE(damaged.err.starts_with(
      "hydrac: error: moved/checkpoint-4 is damaged: model.safetensors has 100 bytes, the manifest says "))
      << damaged.err;
}

TEST_F(Sample, OfACheckpointNeedsTheRunsSpec) {
  const Workplace elsewhere;
  fs::copy(*place_ / "runs/base/checkpoint-4", elsewhere / "checkpoint-4");
  const Outcome outcome = elsewhere.run({"sample", "checkpoint-4"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "hydrac: error: checkpoint-4 does not say what model it is: " +
                             fs::canonical(elsewhere.path()).string() + "/spec.yaml is missing\n");
}

}  // namespace
}  // namespace hydrac::e2e
