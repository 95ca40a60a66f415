#include "runtime/train/step_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "runtime/train/run/run_files.h"
#include "runtime/train/train.h"
#include "tests/unit/support/temp_dir.h"
#include "tests/unit/train/fake_program.h"

namespace hydrac::runtime {
namespace {

using nlohmann::json;
using test::slurp;
using test::TempDir;

TrainOptions options_of(const TempDir& dir, int64_t first, int64_t steps) {
  TrainOptions options;
  options.run_dir = dir / "run";
  options.max_steps = 12;
  options.quiet = true;
  options.trace_first = first;
  options.trace_steps = steps;
  return options;
}

std::vector<json> events(const json& trace, const std::string& phase, int process) {
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase && event.at("pid") == process) found.push_back(event);
  }
  return found;
}

TEST(StepTrace, HasTheStepsAskedForAndTheirCalls) {
  const TempDir dir;
  FakeProgram program;
  program.depth = 2;
  train(program, std::make_shared<FakeLoader>(), options_of(dir, 4, 3));
  EXPECT_EQ(program.timed, (std::vector<std::pair<bool, int64_t>>{{true, 3}, {false, 6}}));

  const json trace = json::parse(slurp(trace_path(dir / "run")));
  std::vector<std::string> steps;
  for (const json& step : events(trace, "X", 0)) {
    if (step.at("tid") == 0) steps.push_back(step.at("name"));
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"step 4", "step 5", "step 6"}));
  const std::vector<json> calls = events(trace, "X", 1);
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[1].at("name"), "kernel \"all\"");
  EXPECT_EQ(calls[1].at("args"), (json{{"step", 5}, {"spec", "model"}, {"layer", 3}}));
  EXPECT_EQ(calls[1].at("tid"), 1);
  EXPECT_NEAR(calls[1].at("dur"), 0.25e6, 1);
}

TEST(StepTrace, HasTheSamplingOfReplies) {
  const TempDir dir;
  FakeProgram program;
  StepTrace trace(program, 1, 1);
  trace.begin();
  FinishedStep step;
  step.seconds = 2;
  step.waited = 0.5;
  step.objective = ObjectiveResult{};
  step.objective->seconds = 1;
  trace.add(step);
  trace.end(dir / "trace.json");
  const std::vector<json> spans = events(json::parse(slurp(dir / "trace.json")), "X", 0);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[2].at("name"), "sample replies");
  EXPECT_NEAR(spans[2].at("ts").get<double>() - spans[0].at("ts").get<double>(), 0.5e6, 1);
  EXPECT_NEAR(spans[2].at("dur"), 1e6, 1);
}

TEST(StepTrace, IsWrittenWhenTheRunEndsEarly) {
  const TempDir dir;
  FakeProgram program;
  train(program, std::make_shared<FakeLoader>(), options_of(dir, 11, 5));
  EXPECT_EQ(events(json::parse(slurp(trace_path(dir / "run"))), "X", 1).size(), 2U);
}

TEST(StepTrace, IsNotWrittenUnasked) {
  const TempDir dir;
  FakeProgram program;
  train(program, std::make_shared<FakeLoader>(), options_of(dir, 1, 0));
  EXPECT_TRUE(program.timed.empty());
  EXPECT_FALSE(std::filesystem::exists(trace_path(dir / "run")));
}

}  // namespace
}  // namespace hydrac::runtime
