// Mixtures of experts, of recursions and of depths as a user trains them: the shipped spec made small, runs
// that go on after an end, and ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// Tokens of all depths, and an auxiliary loss from the first step on.
const Words kRecursions = {"base.yaml", "model.mor.recursions=3", "model.mor.aux_warmup_steps=6",
                           "model.initializer_range=0.1", "sample.max_new_tokens=8"};

// An eighth of a sequence's tokens go through every second layer.
const Words kDepths = {"base.yaml", "model.num_hidden_layers=2", "model.mod.capacity=0.125",
                       "model.initializer_range=0.1", "sample.max_new_tokens=8"};

// Two of five experts.
const Words kExperts = {"base.yaml", "model.moe.experts=5", "model.moe.z_loss_coef=0.01",
                        "model.initializer_range=0.1", "sample.max_new_tokens=8"};

std::vector<nlohmann::json> metric_records(const fs::path& run) {
  std::vector<nlohmann::json> all;
  std::istringstream lines(slurp(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

TEST(Recursions, TheShippedSpecMadeSmallTrains) {
  const Workplace place;
  const std::string spec = hydrac::test::source_dir() + "/specs/hydra-mor.yaml";
  const Words words = {spec,
                       "target=cpu",
                       "data.path=corpus.txt",
                       "data.tokenizer=byte",
                       "model.vocab_size=256",
                       "model.num_hidden_layers=2",
                       "model.hidden_size=64",
                       "model.num_attention_heads=2",
                       "model.num_key_value_heads=1",
                       "model.head_dim=8",
                       "model.intermediate_size=96",
                       "train.sequence_len=32",
                       "train.micro_batch_size=4",
                       "train.gradient_accumulation_steps=2",
                       "train.max_steps=30",
                       "train.log_steps=1",
                       "train.lr_scheduler.name=constant",
                       "train.lr_scheduler.warmup_steps=0",
                       "optimizations.precision=fp32",
                       "optimizations.threads=1",
                       "sample.max_new_tokens=8",
                       "output.dir=runs/small"};
  const Outcome outcome = place.run(words);
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("  depth "), std::string::npos) << outcome.out;
  const auto steps = metric_records(place / "runs/small");
  EXPECT_LT(steps.back()["loss"], steps.front()["loss"]);
  // Of all layers: a share n / 2500 of 0.0005 / 2 + 0.01 + 0.05 at most each.
  const double first = steps.front()["aux_loss"], last = steps.back()["aux_loss"];
  EXPECT_GT(first, 2 * 0.03 / 2500);
  EXPECT_LT(first, 2 * 0.0605 / 2500);
  EXPECT_GT(last, 15 * first);
  for (const auto& step : steps) {
    EXPECT_GE(step["mean_depth"], 0.0);
    EXPECT_LE(step["mean_depth"], 2.0);
  }
}

void expect_to_go_on_bit_for_bit(const Words& spec) {
  const Workplace place;
  const Words words = with(spec, {"train.lr_scheduler.name=constant"});
  run_well(place, with(words, {"output.dir=runs/whole"}));
  run_well(place, with(words, {"train.max_steps=4", "output.dir=runs/half"}));
  run_well(place, with(words, {"output.dir=runs/half", "--resume"}));
  EXPECT_EQ(metrics_of(place / "runs/half"), metrics_of(place / "runs/whole"));
  EXPECT_NE(metrics_of(place / "runs/half").find("\"aux_loss\":"), std::string::npos);
}

TEST(Recursions, ARunGoesOnBitForBit) {
  expect_to_go_on_bit_for_bit(kRecursions);
}

TEST(Experts, ARunGoesOnBitForBit) {
  expect_to_go_on_bit_for_bit(kExperts);
}

// With equal loads aux_loss is 0.01 times top_k, and the busiest expert has the mean load.
TEST(Experts, TheShippedSpecTrains) {
  const Workplace place;
  const std::string spec = hydrac::test::source_dir() + "/specs/moe-small.yaml";
  const Outcome outcome =
      place.run({spec, "train.max_steps=40", "train.log_steps=1", "optimizations.threads=1",
                 "train.eval_steps=0", "sample.max_new_tokens=8", "output.dir=runs/small"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("  load "), std::string::npos) << outcome.out;
  const auto steps = metric_records(place / "runs/small");
  EXPECT_LT(steps.back()["loss"], 0.8 * static_cast<double>(steps.front()["loss"]));
  for (const auto& step : steps) {
    EXPECT_GT(step["aux_loss"], 0.0199);
    EXPECT_LT(step["aux_loss"], 0.04);
    EXPECT_GE(step["expert_load"], 1.0);
    EXPECT_LE(step["expert_load"], 4.0);
    EXPECT_GT(step["router_entropy"], 0.5);
    EXPECT_LE(step["router_entropy"], std::log(8.0) + 1e-4);
  }
}

// Also what routers report, which is summed over ranks beside the loss.
void expect_ranks_to_train_as_one_process(const Words& spec, const std::string& statistic) {
  const Workplace place;
  const auto words = [&](const std::string& ranks, const std::string& steps, const std::string& folder) {
    return with(spec, {"train.micro_batch_size=2", "parallel.data=" + ranks,
                       "train.gradient_accumulation_steps=" + steps, "output.dir=" + folder});
  };
  run_well(place, words("1", "2", "runs/one"));
  run_well(place, words("2", "1", "runs/two"));
  EXPECT_EQ(metrics_of(place / "runs/two"), metrics_of(place / "runs/one"));
  EXPECT_NE(metrics_of(place / "runs/two").find('"' + statistic + "\":"), std::string::npos);
}

TEST(Recursions, TwoRanksTrainAsOneProcessThatAccumulates) {
  expect_ranks_to_train_as_one_process(kRecursions, "mean_depth");
}

TEST(Experts, TwoRanksTrainAsOneProcessThatAccumulates) {
  expect_ranks_to_train_as_one_process(kExperts, "router_entropy");
}

TEST(Depths, TwoRanksTrainAsOneProcessThatAccumulates) {
  expect_ranks_to_train_as_one_process(kDepths, "predictor_accuracy");
}

// No model of transformers is one: hydrac itself reads the folder again.
TEST(Depths, TheModelOfAnAdaptersRunGeneratesAsTheRunDoes) {
  const Workplace place;
  run_well(place, with(kDepths, {"output.dir=runs/base"}));
  run_well(place, with(kDepths, {"adapter.type=lora", "model.weights=runs/base/checkpoint-12",
                                 "output.dir=runs/lora"}));
  run_well(place, {"merge", "runs/lora", "-o", "merged"});
  const auto text_of = [&](const std::string& model) {
    const Outcome outcome =
        place.run({"sample", model, "--prompt", "The ", "--max-new-tokens", "8", "--temperature", "0"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(text_of("merged"), text_of("runs/lora"));
}

void expect_recomputation_to_change_nothing(const Words& spec) {
  const Workplace place;
  std::string expected;
  int number = 0;
  for (const char* what : {"none", "block", "[norm, act]", "[attn, mlp]"}) {
    const std::string folder = "runs/" + std::to_string(number++);
    run_well(place, with(spec, {std::string("optimizations.recompute=") + what, "output.dir=" + folder}));
    const std::string metrics = metrics_of(place / folder);
    if (expected.empty()) expected = metrics;
    EXPECT_EQ(metrics, expected) << what;
  }
}

TEST(Recursions, EveryChoiceOfRecomputationTrainsTheSame) {
  expect_recomputation_to_change_nothing(kRecursions);
}

TEST(Experts, EveryChoiceOfRecomputationTrainsTheSame) {
  expect_recomputation_to_change_nothing(kExperts);
}

}  // namespace
}  // namespace hydrac::e2e
