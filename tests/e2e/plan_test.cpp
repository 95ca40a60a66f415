// `hydrac check` and `explain`: what they say is what a run then takes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// The number that follows `label` and blanks in `text`, -1 without.
int64_t number_after(const std::string& text, const std::string& label) {
  const size_t at = text.find(label);
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + label.size()));
}

// One past the last byte of any tensor in the memory map.
int64_t end_of_map(const std::string& explained) {
  static const std::regex row(R"(^ +(\d+) +(\d+)  \S)");
  std::istringstream lines(explained);
  int64_t end = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, row))
      end = std::max<int64_t>(end, std::stoll(match[1]) + std::stoll(match[2]));
  }
  return end;
}

TEST(Plan, CheckExplainAndTheRunSayTheSameBytes) {
  const Workplace place;
  const Outcome check = place.run({"check", "base.yaml"});
  const Outcome explain = place.run({"explain", "base.yaml"});
  ASSERT_EQ(check.code, 0) << check.err;
  ASSERT_EQ(explain.code, 0) << explain.err;
  const int64_t bytes = number_after(check.out, "\narena");
  ASSERT_GT(bytes, 0) << check.out;
  EXPECT_EQ(number_after(explain.out, "\narena"), bytes);
  EXPECT_EQ(end_of_map(explain.out), bytes);
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  const std::string metrics = slurp(place / "runs/base/metrics.jsonl");
  const double gib = nlohmann::json::parse(metrics.substr(0, metrics.find('\n')))["memory_gib"];
  EXPECT_EQ(gib * 0x1p30, static_cast<double>(bytes));
}

TEST(Plan, PartsAddUpToTheArena) {
  const Workplace place;
  const std::string out = place.run({"check", "base.yaml"}).out;
  int64_t sum = 0;
  for (const char* role :
       {"input", "constant", "parameter", "gradient", "optimizer_state", "state", "activation"}) {
    const int64_t bytes = number_after(out, std::string("\n  ") + role + " ");
    EXPECT_GT(bytes, 0) << role;
    sum += bytes;
  }
  EXPECT_EQ(sum, number_after(out, "\narena")) << out;
}

// 256x64 embeddings, and in each of two blocks 64x(64+32+32) + 64x64 + 3x64x128 + two norms; one more norm.
TEST(Plan, CountsParameters) {
  const Workplace place;
  EXPECT_EQ(number_after(place.run({"check", "base.yaml"}).out, "\n"),
            256 * 64 + 2 * (64 * 128 + 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64);
}

TEST(Plan, CheckPrintsASpecThatLoadsAgainAndIsItsOwnResolution) {
  const Workplace place;
  const Outcome first = place.run({"check", "-v", "base.yaml"});
  test::spill(place / "resolved.yaml", first.out);
  const Outcome second = place.run({"check", "-v", "resolved.yaml"});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.out, first.out);
}

TEST(Plan, ChecksAndExplainsTwiceAlikeAndWriteNothing) {
  const Workplace place;
  const Words before = files_below(place.path());
  for (const char* verb : {"check", "explain"}) {
    const Outcome outcome = place.run({verb, "base.yaml"});
    EXPECT_EQ(place.run({verb, "base.yaml"}).out, outcome.out) << verb;
  }
  EXPECT_EQ(files_below(place.path()), before);
}

using Json = nlohmann::json;

TEST(Json, OfCheckSaysWhatTheTextSays) {
  const Workplace place;
  const std::string text = place.run({"check", "-v", "base.yaml"}).out;
  const Outcome outcome = place.run({"check", "base.yaml", "--json", "--memory", "1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["memory"]["arena_bytes"], number_after(text, "\n# arena"));
  EXPECT_EQ(json["parameters"], number_after(text, "\n# "));
  EXPECT_EQ(json["spec"]["train"]["max_steps"], number_after(text, "max_steps:"));
  EXPECT_EQ(json["recompute"], "none");
  EXPECT_EQ(json["memory"]["limit_bytes"], 1 << 30);
  EXPECT_EQ(json["memory"]["fits"], true);
  int64_t sum = 0;
  for (const auto& [role, bytes] : json["memory"]["bytes"].items()) {
    EXPECT_EQ(bytes, number_after(text, "\n#   " + role + " ")) << role;
    sum += bytes.get<int64_t>();
  }
  EXPECT_EQ(sum, json["memory"]["arena_bytes"]);
}

TEST(Json, OfExplainHasEveryCallAndTensor) {
  const Workplace place;
  const Outcome outcome = place.run({"explain", "base.yaml", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["functions"][0]["name"], "micro_step");
  const Json& block = json["functions"][0]["sections"][1];
  EXPECT_EQ(block["name"], "block");
  EXPECT_EQ(block["iterations"], 2);
  EXPECT_EQ(block["calls"][0]["kernel"], "gemm");
  EXPECT_EQ(block["calls"][0]["gemm"]["n"], 64 + 32 + 32);
  EXPECT_EQ(block["calls"][0]["output"], "attn.qkv");
  int64_t end = 0, last = 0;
  for (const Json& tensor : json["tensors"]) {
    EXPECT_GE(tensor["offset"].get<int64_t>(), last);
    last = tensor["offset"];
    end = std::max(end, last + tensor["bytes"].get<int64_t>());
    EXPECT_EQ(tensor["alive"].is_null(), tensor["role"] != "activation") << tensor;
  }
  EXPECT_EQ(end, json["memory"]["arena_bytes"]);
  EXPECT_GT(json["decisions"].size(), 5u);
}

TEST(Json, OfAProgramThatDoesNotFitSaysSo) {
  const Workplace place;
  const Outcome outcome = place.run({"check", "base.yaml", "--json", "--memory", "0.001"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(Json::parse(outcome.out)["memory"]["fits"], false);
  EXPECT_NE(outcome.err.find("[out-of-memory]"), std::string::npos);
}

TEST(Plan, DumpWritesTheStagesInOrderAndMarksTheUnchanged) {
  const Workplace place;
  ASSERT_EQ(place.run({"explain", "base.yaml", "--dump", "stages"}).code, 0);
  const Words stages = {"01-graph.txt",     "02-rotate-norms.txt", "03-autodiff.txt",    "04-recompute.txt",
                        "05-precision.txt", "06-chunk-head.txt",   "07-layout.txt",      "08-expand.txt",
                        "09-dead-code.txt", "10-fuse.txt",         "11-dead-stores.txt", "12-in-place.txt",
                        "13-program.txt",   "14-plan.txt"};
  EXPECT_EQ(files_below(place / "stages"), stages);
  EXPECT_EQ(slurp(place / "stages/06-chunk-head.txt"), "unchanged\n");
  EXPECT_EQ(slurp(place / "stages/04-recompute.txt"), "unchanged\n");
  for (const std::string& stage : stages) EXPECT_GT(slurp(place / ("stages/" + stage)).size(), 5u) << stage;
  ASSERT_EQ(place.run({"explain", "base.yaml", "--dump", "block", "optimizations.recompute=block"}).code, 0);
  EXPECT_GT(slurp(place / "block/04-recompute.txt").size(), 100u);
  EXPECT_EQ(slurp(place / "block/01-graph.txt"), slurp(place / "stages/01-graph.txt"));
}

}  // namespace
}  // namespace hydrac::e2e
