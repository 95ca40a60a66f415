// `optimizations.fit: auto`: keys that the spec leaves open are chosen so that the program fits, `check` says
// why, and a run, what goes on from it, and what is emitted have them as if they were written.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// 1024 rows a step, of which as many as fit are in memory at once.
class FitPlace : public Workplace {
 public:
  FitPlace() {
    std::string spec = base_spec();
    const std::string batch = "  micro_batch_size: 2\n  gradient_accumulation_steps: 2\n";
    spec.replace(spec.find(batch), batch.size(), "  global_batch_size: 16\n");
    spec.replace(spec.find("dropout: 0.1"), 12, "dropout: 0");
    spec.replace(spec.find("attention_dropout: 0.1"), 22, "attention_dropout: 0");
    spec.replace(spec.find("sequence_len: 16"), 16, "sequence_len: 64");
    test::spill(*this / "open.yaml", spec + "x-end: 0\n");
  }

  // Of the plan with these words, in bytes.
  int64_t planned_bytes(const Words& words) const {
    const Outcome outcome = run(with({"check", "open.yaml", "--json"}, words));
    return nlohmann::json::parse(outcome.out)["memory"]["arena_bytes"];
  }
};

const Words kFit = {"open.yaml", "optimizations.fit=auto"};

// As optimizations.memory_limit takes it.
std::string limit_of(int64_t bytes) {
  return fmt::format("optimizations.memory_limit={:.17f}", static_cast<double>(bytes) / 0x1p30);
}

// Which is between what nothing and everything kept take.
int64_t half_way(const FitPlace& place) {
  return (place.planned_bytes({"train.micro_batch_size=2"}) +
          place.planned_bytes({"train.micro_batch_size=16"})) /
         2;
}

TEST(Fit, CheckPrintsWhatWasChosenAndWhy) {
  const FitPlace place;
  const int64_t limit = half_way(place);
  const Outcome check = place.run(with({"check", "-v"}, with(kFit, {limit_of(limit)})));
  ASSERT_EQ(check.code, 0) << check.err;
  static const std::regex lines(
      "# fit: to fit \\d+ bytes: optimizations\\.memory_limit is [^\n]+\n"
      "# fit: taken: micro_batch_size: \\d+, recompute: [^\n]+, loss: \\w+: [^\n]+, [^\n]+ with unlimited "
      "memory\n"
      "# fit: runner-up: micro_batch_size: [^\n]+ with unlimited memory\n"
      "# fit: \\d+ of \\d+ combinations planned\n");
  EXPECT_TRUE(std::regex_search(check.out, lines)) << check.out;
  EXPECT_EQ(check.out.find("fit: auto"), std::string::npos) << "the resolved spec has the values";
  test::spill(place / "resolved.yaml", check.out);
  const auto resolved = nlohmann::json::parse(place.run({"check", "resolved.yaml", "--json"}).out);
  EXPECT_LE(resolved["memory"]["arena_bytes"], limit);
  EXPECT_TRUE(resolved["fit"].is_null());

  const auto json =
      nlohmann::json::parse(place.run(with({"explain", "--json"}, with(kFit, {limit_of(limit)}))).out);
  EXPECT_EQ(json["spec"], resolved["spec"]);
  EXPECT_EQ(json["fit"].size(), 4u);
  EXPECT_EQ(json["decisions"][0]["pass"], "fit");
}

TEST(Fit, ARunIsThatOfTheKeysThatWereChosen) {
  const FitPlace place;
  const Words fitted = with(kFit, {limit_of(half_way(place)), "train.max_steps=4"});
  test::spill(place / "resolved.yaml", place.run(with({"check", "-v"}, fitted)).out);
  const Outcome run = place.run(fitted);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("note: fit: taken: micro_batch_size: "), std::string::npos) << run.err;
  EXPECT_EQ(slurp(place / "runs/base/spec.yaml").find("fit:"), std::string::npos);
  ASSERT_EQ(place.run({"-q", "resolved.yaml", "output.dir=runs/resolved"}).code, 0);
  EXPECT_TRUE(slurp(place / "runs/base/checkpoint-4/model.safetensors") ==
              slurp(place / "runs/resolved/checkpoint-4/model.safetensors"));
}

// A larger limit would split the batch another way, and sums would have another order.
TEST(Fit, AResumedRunKeepsWhatDecidesItsResults) {
  const FitPlace place;
  const Words first = with({"-q"}, with(kFit, {limit_of(half_way(place))}));
  const Words constant = {"train.lr_scheduler.name=constant"};
  ASSERT_EQ(place.run(with(first, with(constant, {"train.max_steps=4"}))).code, 0);
  const Words more = with({"-q", "--resume"}, with(kFit, with(constant, {"train.max_steps=6"})));
  const Outcome resumed = place.run(more);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  ASSERT_EQ(place.run(with(first, with(constant, {"train.max_steps=6", "output.dir=runs/whole"}))).code, 0);
  EXPECT_TRUE(slurp(place / "runs/base/checkpoint-6/model.safetensors") ==
              slurp(place / "runs/whole/checkpoint-6/model.safetensors"));
}

TEST(Fit, AnEmittedProgramHasTheValues) {
  const FitPlace place;
  const Words fitted = with(kFit, {limit_of(half_way(place))});
  ASSERT_EQ(place.run(with({"emit", "-q", "-o", "program"}, fitted)).code, 0);
  EXPECT_EQ(place.run(with({"diff"}, with({"open.yaml", "program"}, {fitted[1], fitted[2]}))).code, 0);
  for (const std::string& name : files_below(place / "program"))
    EXPECT_EQ(slurp(place / ("program/" + name)).find("fit: auto"), std::string::npos) << name;
}

TEST(Fit, WhereNothingFitsItSaysTheLeast) {
  const FitPlace place;
  const Outcome outcome = place.run(with({"check"}, with(kFit, {"optimizations.memory_limit=0.001"})));
  EXPECT_EQ(outcome.code, 2);
  static const std::regex text(
      "<command line>:1:19: error: none of the 375 combinations of keys fits: the least needs [\\d.]+ MiB, "
      "and "
      "optimizations\\.memory_limit is 1\\.02 MiB \\[out-of-memory\\]\n"
      "  optimizations\\.fit=auto[^\n]*\n +\\^\n"
      "  help: the least is micro_batch_size: 1, recompute: [^\n]+, loss: \\w+, which a limit of 0\\.001\\d "
      "GiB would "
      "allow; no micro-batch fits: a smaller model, or a shorter train\\.sequence_len, may\n");
  EXPECT_TRUE(std::regex_search(outcome.err, text)) << outcome.err;
}

TEST(Fit, IsProposedWhereItWasSeenToFit) {
  const FitPlace place;
  const std::string limit = limit_of(half_way(place));
  const Outcome refused = place.run({"check", "open.yaml", "train.micro_batch_size=16", limit});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("optimizations.fit: auto"), std::string::npos) << refused.err;
  EXPECT_EQ(
      place.run({"check", "open.yaml", "train.micro_batch_size=16", limit, "optimizations.fit=auto"}).code,
      0);
}

TEST(Fit, WarnsWhereEveryKeyIsWritten) {
  const FitPlace place;
  const Outcome outcome =
      place.run(with({"check"}, with(kFit, {"train.micro_batch_size=4", "optimizations.recompute=none",
                                            "optimizations.loss=materialized"})));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("optimizations.fit has no effect: every key that it chooses is written"),
            std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace hydrac::e2e
