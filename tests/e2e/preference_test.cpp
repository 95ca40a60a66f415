// Objectives that learn from pairs of a chosen and a rejected completion.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/e2e/cli.h"
#include "tests/unit/support/command.h"
#include "tests/unit/support/source_dir.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

std::vector<nlohmann::json> records_of(const fs::path& run) {
  std::vector<nlohmann::json> list;
  std::istringstream lines(slurp(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) list.push_back(nlohmann::json::parse(line));
  return list;
}

// A tiny model of bytes with dropout; "after 7 comes " with "8" and, less good, "unknown".
class Preference : public testing::Test {
 protected:
  Preference() {
    std::string lines;
    for (int i = 0; i < 24; ++i) lines += record(i);
    spill(place_ / "pairs.jsonl", lines);
    spill(place_ / "pairs.yaml",
          "name: pairs\ntarget: cpu\n"
          "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
          "intermediate_size: 64, dropout: 0.1}\n"
          "objective: {name: dpo}\n"
          "data: {path: pairs.jsonl, format: chat, val_fraction: 0.1}\n"
          "train: {sequence_len: 96, micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 6, "
          "eval_steps: 3, log_steps: 1, optimizer: {learning_rate: 0.01}}\n"
          "optimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  }

  static std::string record(int i) {
    return R"({"prompt": "after )" + std::to_string(i) + R"( comes ", "chosen": ")" + std::to_string(i + 1) +
           R"(", "rejected": "unknown"})"
           "\n";
  }

  Outcome train(const Words& more) const {
    const Outcome trained = place_.run(with({"-q", "pairs.yaml"}, more));
    EXPECT_EQ(trained.code, 0) << trained.err;
    return trained;
  }
  void refused(const std::string& lines, const std::string& why) const {
    spill(place_ / "bad.jsonl", record(1) + lines);
    const Outcome outcome = place_.run({"pairs.yaml", "data.path=bad.jsonl"});
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
  }
  std::string file(const std::string& run, const std::string& name) const {
    return slurp(place_ / "runs" / run / name);
  }

  const Workplace place_;
};

TEST_F(Preference, BeginsAtTheReferenceAndLearnsTheMargin) {
  train({"train.max_steps=30", "train.eval_steps=10", "model.dropout=0"});
  const auto records = records_of(place_ / "runs/pairs");
  ASSERT_EQ(records.size(), 30u);
  EXPECT_NEAR(records[0]["loss"].get<double>(), std::log(2.0), 1e-6);
  EXPECT_EQ(records[0]["rewards/margins"].get<double>(), 0);
  EXPECT_LT(records[0]["logps/chosen"].get<double>(), -5);
  EXPECT_GT(records[29]["rewards/margins"].get<double>(), 1);
  EXPECT_EQ(records[29]["rewards/accuracies"].get<double>(), 1);
  EXPECT_NEAR(records[29]["rewards/margins"].get<double>(),
              records[29]["rewards/chosen"].get<double>() - records[29]["rewards/rejected"].get<double>(),
              1e-5);
  EXPECT_LT(records[29]["eval_loss"].get<double>(), 0.6);
  EXPECT_TRUE(records[29].contains("eval_accuracy"));
  EXPECT_FALSE(records[29].contains("eval_perplexity"));
}

TEST_F(Preference, ARunThatWasStoppedGoesOnToTheSameBitsWithItsReferenceOrANewOne) {
  train({});
  train({"name=parts", "train.save_steps=3"});
  for (const bool keeps : {true, false}) {
    fs::remove_all(place_ / "runs/parts/checkpoint-6");
    if (!keeps) fs::remove(place_ / "runs/parts/reference.bin");
    train({"name=parts", "train.save_steps=3", "--resume"});
    for (const char* name :
         {"checkpoint-6/model.safetensors", "checkpoint-6/optimizer.safetensors", "reference.bin"})
      EXPECT_EQ(file("parts", name), file("pairs", name)) << name;
    EXPECT_EQ(without_timing(file("parts", "metrics.jsonl")), without_timing(file("pairs", "metrics.jsonl")));
  }
}

TEST_F(Preference, TwoRanksTrainAsOneProcessThatAccumulates) {
  train({});
  train({"name=ranks", "train.gradient_accumulation_steps=1", "parallel.data=2"});
  for (const char* name : {"checkpoint-6/model.safetensors", "reference.bin"})
    EXPECT_EQ(file("ranks", name), file("pairs", name)) << name;
}

TEST_F(Preference, TheReferenceOfAnAdapterIsTheModelWithoutIt) {
  train({"model.dropout=0"});
  train({"name=lora", "model.dropout=0", "adapter.type=lora"});
  EXPECT_EQ(file("lora", "reference.bin"), file("pairs", "reference.bin"));
}

TEST_F(Preference, EveryNameTrains) {
  for (const char* name : {"ipo", "simpo", "orpo", "apo_zero", "apo_down"}) {
    train({std::string("objective.name=") + name, std::string("name=") + name});
    const auto records = records_of(place_ / "runs" / name);
    EXPECT_LT(records[5]["loss"].get<double>(), records[0]["loss"].get<double>()) << name;
    EXPECT_EQ(fs::exists(place_ / "runs" / name / "reference.bin"),
              std::string(name) != "simpo" && std::string(name) != "orpo");
  }
}

TEST_F(Preference, RecordsThatAreNoPairsAreErrorsWithTheirPlace) {
  refused("{\"prompt\": \"a\", \"chosen\": \"b\"}\n",
          "bad.jsonl:2: objective.name wants pairs, and there is no \"rejected\" but \"prompt\", \"chosen\"");
  refused("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"\"}\n",
          "bad.jsonl:2: \"rejected\" is empty");
  refused("{\"chosen\": [{\"role\": \"user\", \"content\": \"c\"}], \"rejected\": []}\n",
          "bad.jsonl:2: \"rejected\" is empty");
  refused("{\"prompt\": \"\", \"chosen\": \"b\", \"rejected\": \"c\"}\n",
          "bad.jsonl:2: nothing stands before \"chosen\": a pair has a prompt");
  refused(
      "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": [{\"role\": \"user\", \"content\": \"c\"}]}\n",
      "bad.jsonl:2: of prompt, chosen and rejected some are strings and others lists of messages");
}

TEST_F(Preference, PairsThatDoNotFitAreDroppedAndCounted) {
  spill(place_ / "long.jsonl", record(1) + record(2) + "{\"prompt\": \"" + std::string(60, 'a') +
                                   "\", \"chosen\": \"b\", \"rejected\": \"c\"}\n");
  const Outcome outcome = place_.run({"pairs.yaml", "data.path=long.jsonl", "data.val_fraction=0",
                                      "train.eval_steps=0", "train.max_steps=1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("3 pairs in 1 sequences"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("1 longer than 98 tokens is dropped"), std::string::npos) << outcome.out;
}

TEST(PreferencePeers, ThreeStepsAreTrls) {
  const Workplace place;
  const std::string root = test::source_dir();
  const test::CommandOutcome script =
      test::run_command("HYDRAC_CACHE='" + shared_cache().string() + "' '" + test::python_with_packages() +
                        "' '" + root + "/tests/e2e/preferences.py' " HYDRAC_BUILT_PROGRAM " '" +
                        place.path().string() + "' '" + root + "/examples/lora/model/tokenizer.json' 2>&1");
  constexpr int kPackagesMissing = 77, kNoPython = 127;
  if (script.code == kPackagesMissing || script.code == kNoPython)
    GTEST_SKIP() << "nothing was compared with TRL: " << script.output
                 << "HYDRAC_PYTHON may name a Python that has it";
  EXPECT_EQ(script.code, 0) << script.output;
}

}  // namespace
}  // namespace hydrac::e2e
