// Users' own C++ functions in a spec: trained with, found in what a run leaves behind, resumed only as they
// were, refused at their place.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/support/source_dir.h"

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using Json = nlohmann::json;
using test::slurp;
using test::spill;

const Words kQuickGelu = {"base.yaml", "model.hidden_act={cpp: ops/quick_gelu.h, function: quick_gelu}"};

void spill_examples(const Workplace& place) {
  const std::string examples = hydrac::test::source_dir() + "/examples/ops/";
  fs::create_directories(place / "ops");
  for (const char* file : {"quick_gelu.h", "step_decay.h"})
    spill(place / "ops" / file, slurp(examples + file));
}

TEST(OwnFunction, IsTrainedWithAndCarriedByTheRun) {
  const Workplace place;
  spill_examples(place);
  const Outcome outcome =
      place.run(with(kQuickGelu, {"train.lr_scheduler.name={cpp: ops/step_decay.h, function: step_decay}",
                                  "train.optimizer.learning_rate=0.001"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<double> rates, losses;
  std::istringstream lines(slurp(place / "runs/base/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    rates.push_back(Json::parse(line)["learning_rate"].get<double>());
    losses.push_back(Json::parse(line)["loss"].get<double>());
  }
  ASSERT_EQ(rates.size(), 12u);
  EXPECT_LT(losses.back(), losses.front());
  for (int step = 0; step < 12; ++step)
    EXPECT_NEAR(rates[step], step < 6 ? 1e-3 : step < 9 ? 1e-4 : 1e-5, 1e-9) << step;
  const Json config = Json::parse(slurp(place / "runs/base/checkpoint-12/config.json"));
  EXPECT_EQ(config["model_type"], "hydrac");
  EXPECT_EQ(config["hidden_act"]["function"], "quick_gelu");
  EXPECT_EQ(config["hidden_act"]["text"], slurp(place / "ops/quick_gelu.h"));
  // The run needs neither file any more.
  fs::remove_all(place / "ops");
  const Outcome sampled = place.run({"sample", "runs/base", "--max-new-tokens", "3"});
  EXPECT_EQ(sampled.code, 0) << sampled.err;
}

TEST(OwnFunction, IsResumedOnlyWithTheSameText) {
  const Workplace place;
  spill_examples(place);
  ASSERT_EQ(place.run(with(kQuickGelu, {"-q"})).code, 0);
  fs::rename(place / "ops", place / "moved");
  const Words moved = {"base.yaml", "model.hidden_act={cpp: moved/quick_gelu.h, function: quick_gelu}",
                       "--resume"};
  EXPECT_EQ(place.run(moved).code, 0) << "where the file lies does not count";
  const std::string text = slurp(place / "moved/quick_gelu.h");
  spill(place / "moved/quick_gelu.h", text + "// a remark\n");
  const Outcome changed = place.run(moved);
  EXPECT_EQ(changed.code, 2);
  EXPECT_TRUE(changed.err.starts_with(
      "hydrac: error: runs/base/checkpoint-12 cannot be resumed, because what decides "
      "the results has changed:\n"
      "  model.hidden_act: \"quick_gelu of a file with fingerprint "))
      << changed.err;
}

TEST(OwnFunction, ThatCannotBeLiftedIsRefusedAtItsPlace) {
  const Workplace place;
  fs::create_directories(place / "ops");
  spill(place / "ops/quick_gelu.h", "float quick_gelu(float x) {\n  return 2.0 * x;\n}\n");
  const Outcome outcome = place.run(kQuickGelu);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(
      outcome.err,
      "ops/quick_gelu.h:2:10: error: 2.0 is double, and the function computes in float [function-refused]\n"
      "    return 2.0 * x;\n"
      "           ^\n"
      "  help: write 2.0f\n");
  EXPECT_FALSE(fs::exists(place / "runs"));
}

// Names go into kernels' names and comments, and no further.
TEST(OwnFunction, CannotBringCodeInByItsName) {
  const Workplace place;
  fs::create_directories(place / "ops");
  for (const char* name : {"f */ int evil; /*", "f\\n#include", "f()", "", "int x; f", "\xc3\xa4"}) {
    const Outcome outcome = place.run(
        {"check", "base.yaml", std::string("model.hidden_act={cpp: ops/f.h, function: \"") + name + "\"}"});
    EXPECT_EQ(outcome.code, 2) << name;
  }
  // Words of C++ and names of the kernels' own are names like any other: they never stand alone.
  spill(place / "ops/f.h",
        "float sigmoid(float x) { return x * x; }\nfloat __launch(float x) { return x * x; }\n");
  for (const char* name : {"sigmoid", "__launch"}) {
    const Outcome outcome =
        place.run({"-q", "base.yaml", "train.max_steps=1", "train.lr_scheduler.warmup_steps=0",
                   std::string("model.hidden_act={cpp: ops/f.h, function: ") + name + "}"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
}

TEST(OwnFunction, TheExampleIsAValidSpec) {
  const Workplace place;
  const Outcome outcome = place.run({"check", hydrac::test::source_dir() + "/examples/quick_gelu.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

// Names of generated code's own variables, constants and kernels, of C's functions, and of CUDA's words.
TEST(OwnFunction, MayHaveAnyNameThatCppTakes) {
  const Workplace place;
  for (const std::string name : {"block", "l", "rows", "kRows", "total", "expf", "assert", "std", "float4",
                                 "blockIdx", "sigmoid", "rmsnorm", "user_f"}) {
    spill(place / "f.h", "float " + name + "(float x) { return x > 0.0f ? x : 0.1f * x; }\n");
    for (const char* target : {"target=cpu", "target=h100"}) {
      Words words = {"emit",
                     "base.yaml",
                     "-q",
                     "-o",
                     name + target,
                     target,
                     "model.hidden_act={cpp: f.h, function: " + name + "}"};
      if (std::string(target) != "target=cpu") words.push_back("optimizations.threads=0");
      const Outcome outcome = place.run(words);
      EXPECT_EQ(outcome.code, 0) << name << " " << outcome.err;
    }
  }
}

TEST(OwnFunction, IsRefusedAtItsLineWhereCppTakesNoSuchName) {
  const Workplace place;
  for (const std::string name : {"main", "double", "operator"}) {
    spill(place / "f.h", "float " + name + "(float x) { return x > 0.0f ? x : 0.1f * x; }\n");
    const Outcome outcome =
        place.run({"check", "base.yaml", "model.hidden_act={cpp: f.h, function: " + name + "}"});
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_NE(outcome.err.find("f.h:1:"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace hydrac::e2e
