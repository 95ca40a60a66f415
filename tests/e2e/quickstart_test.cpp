// `hydrac --version` and `hydrac quickstart`: what a newcomer types first.
#include <gtest/gtest.h>

#include <regex>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

TEST(Version, NamesVersionAndCompilerAndTheLibrariesOfThisMachine) {
  const Workplace place;
  const Outcome outcome = place.run({"--version"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::regex line("hydrac " HYDRAC_VERSION
                        " \\((commit [0-9a-f]{7,}, )?built with [A-Za-z]+ [0-9.]+\\)\n");
  EXPECT_TRUE(std::regex_match(outcome.out, line)) << outcome.out;
  const Outcome more = place.run({"--version", "-v"});
  EXPECT_EQ(more.out.find(outcome.out), 0u);
  for (const char* library : {"\noneDNN", "\nOpenBLAS", "\nGPU", "\nNVRTC", "\ncuBLASLt", "\ncuDNN"})
    EXPECT_NE(more.out.find(library), std::string::npos) << more.out;
  EXPECT_EQ(place.run({"--version", "--resume"}).code, 2);
}

const Words kShort = {"quickstart", "train.max_steps=2", "train.lr_scheduler.warmup_steps=1",
                      "sample.max_new_tokens=4"};

TEST(Quickstart, TrainsInAnEmptyFolderAndLeavesItsSpec) {
  const Workplace place;
  fs::remove(place / "base.yaml");
  fs::remove(place / "corpus.txt");
  const Outcome outcome = place.run(kShort);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(place / "quickstart/run/checkpoint-2/model.safetensors"));
  EXPECT_GT(fs::file_size(place / "quickstart/text.txt"), 500'000u);
  EXPECT_NE(outcome.out.find("hydrac sample quickstart/run --prompt"), std::string::npos) << outcome.out;
  const std::string spec = slurp(place / "quickstart/quickstart.yaml");
  EXPECT_EQ(spec.find('@'), std::string::npos) << spec;
  // What it left is a spec as any other.
  const Outcome check = place.run({"check", "quickstart/quickstart.yaml"});
  EXPECT_EQ(check.code, 0) << check.err;
  // The same again, as after a first try that found no compiler; but not over what was edited since.
  spill(place / "quickstart/quickstart.yaml", spec + "# mine\n");
  const Outcome refused = place.run(kShort);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "hydrac: error: quickstart/quickstart.yaml is there already and is not what quickstart would "
            "write: train "
            "it with `hydrac SPEC`, or start in another folder: hydrac quickstart -o FOLDER\n");
  spill(place / "quickstart/quickstart.yaml", spec);
  EXPECT_EQ(place.run(kShort).code, 0);
}

TEST(Quickstart, LearnsFromATextOfOnesOwn) {
  const Workplace place;
  const Outcome outcome =
      place.run({"quickstart", "--data", "corpus.txt", "-o", "mine/first", "train.max_steps=1",
                 "train.lr_scheduler.warmup_steps=1", "sample.max_new_tokens=0", "data.val_fraction=0.2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(place / "mine/first/run/checkpoint-1"));
  EXPECT_FALSE(fs::exists(place / "mine/first/text.txt"));
  EXPECT_NE(slurp(place / "mine/first/quickstart.yaml").find("path: [\"../../corpus.txt\"]"),
            std::string::npos);
}

TEST(Quickstart, SaysWhatIsWrongWithItsArguments) {
  const Workplace place;
  const Outcome extra = place.run({"quickstart", "corpus.txt"});
  EXPECT_EQ(extra.code, 2);
  EXPECT_EQ(extra.err,
            "hydrac: error: quickstart brings its own spec: corpus.txt is one argument too many (--data "
            "names a text "
            "to learn from)\n");
  EXPECT_EQ(place.run({"quickstart", "-o", "corpus.txt"}).code, 2);
}

}  // namespace
}  // namespace hydrac::e2e
