// train.optimizer.learning_rate: auto: a run finds its rate, and is then the run of a spec with that number.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

const std::string kAuto = "train.optimizer.learning_rate=auto";

std::string found_rate(const fs::path& run) {
  return nlohmann::json::parse(slurp(run / "range_test.json"))["learning_rate"].dump();
}

// A few bytes more hold the rate.
std::string without_memory(const fs::path& run) {
  return std::regex_replace(without_timing(slurp(run / "metrics.jsonl")),
                            std::regex(",\"memory_gib\":[^,}]*"), "");
}

void expect_same(const fs::path& found, const fs::path& fixed, const std::string& what) {
  for (const char* name : {"model.safetensors", "config.json"})
    EXPECT_TRUE(slurp(found / "checkpoint-12" / name) == slurp(fixed / "checkpoint-12" / name))
        << what << name;
  EXPECT_EQ(without_memory(found), without_memory(fixed)) << what;
}

TEST(RangeTest, ARunThatFoundItsRateIsThatOfASpecWithTheNumber) {
  const Workplace place;
  for (const std::string optimizer : {"adamw", "lion", "sgd", "muon"}) {
    for (const std::string scheduler : {"cosine", "adaptive"}) {
      if (optimizer != "adamw" && scheduler == "adaptive") continue;
      const Words words = {"base.yaml", "train.optimizer.name=" + optimizer,
                           "train.lr_scheduler.name=" + scheduler, "train.lr_scheduler.warmup_steps=3"};
      const std::string what = optimizer + " " + scheduler + " ", name = "runs/" + optimizer + scheduler;
      const Outcome run = place.run(with(words, {kAuto, "output.dir=" + name}));
      ASSERT_EQ(run.code, 0) << what << run.err;
      const std::string rate = found_rate(place / name);
      EXPECT_NE(run.out.find("learning rate " + rate + ", found by the range test of this run\n"),
                std::string::npos)
          << run.out;
      const Words fixed = {"-q", "train.optimizer.learning_rate=" + rate, "output.dir=" + name + "-fixed"};
      ASSERT_EQ(place.run(with(words, fixed)).code, 0);
      expect_same(place / name, place / (name + "-fixed"), what);
    }
  }
}

TEST(RangeTest, AResumedRunTakesTheRateOfItsCheckpoint) {
  const Workplace place;
  const std::string constant = "train.lr_scheduler.name=constant";
  ASSERT_EQ(place.run({"-q", "base.yaml", kAuto, constant, "output.dir=runs/whole"}).code, 0);
  ASSERT_EQ(place.run({"-q", "base.yaml", kAuto, constant, "train.max_steps=7"}).code, 0);
  const std::string rate = found_rate(place / "runs/base");
  fs::remove(place / "runs/base/range_test.json");
  const Outcome rest = place.run({"base.yaml", kAuto, constant, "--resume"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find("learning rate " + rate + ", found by the range test of this run\n"),
            std::string::npos);
  EXPECT_EQ(rest.out.find("range test: "), std::string::npos) << rest.out;
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_TRUE(slurp(place / "runs/base/checkpoint-12" / name) ==
                slurp(place / "runs/whole/checkpoint-12" / name))
        << name;
  const Outcome number = place.run(
      {"base.yaml", "train.optimizer.learning_rate=" + rate, constant, "--resume", "train.max_steps=14"});
  EXPECT_EQ(number.code, 2) << "what found the rate is what the checkpoint names";
}

TEST(RangeTest, OtherVerbsSayWithWhichRateTheyTakeTheirSteps) {
  const Workplace place;
  const std::string note =
      "note: train.optimizer.learning_rate is auto, which a run finds by a range test; hydrac bench takes "
      "0.0003, "
      "adamw's default\n";
  EXPECT_EQ(place.run({"bench", "base.yaml", kAuto, "--steps", "1"}).err, note);
  const Outcome check = place.run({"check", "-v", "base.yaml", kAuto});
  EXPECT_NE(check.out.find("    learning_rate: auto\n"), std::string::npos) << check.out;
  EXPECT_NE(check.out.find("# a run begins with a range test of up to 121 steps, which finds "
                           "train.optimizer.learning_rate\n"),
            std::string::npos);
  const Outcome explain = place.run({"explain", "base.yaml", kAuto});
  EXPECT_NE(explain.out.find("auto: a run begins with a range test"), std::string::npos);
}

TEST(RangeTest, RanksFindTheRateTogether) {
  const Workplace place;
  const Words words = {"-q", "base.yaml", kAuto, "train.gradient_accumulation_steps=1"};
  const Outcome run = place.run(with(words, {"parallel.data=2"}));
  ASSERT_EQ(run.code, 0) << run.err;
  const Outcome one =
      place.run({"-q", "base.yaml", kAuto, "train.gradient_accumulation_steps=2", "output.dir=runs/one"});
  ASSERT_EQ(one.code, 0) << one.err;
  expect_same(place / "runs/base", place / "runs/one", "ranks ");
  EXPECT_EQ(found_rate(place / "runs/base"), found_rate(place / "runs/one"));
}

}  // namespace
}  // namespace hydrac::e2e
