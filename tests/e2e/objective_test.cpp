// Objectives that generate: replies that are sampled while a model trains, and what is learned from them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

std::vector<nlohmann::json> records(const fs::path& file) {
  std::vector<nlohmann::json> list;
  std::istringstream lines(slurp(file));
  for (std::string line; std::getline(lines, line);) list.push_back(nlohmann::json::parse(line));
  return list;
}

// A tiny model of bytes with an adapter, and instructions.
class Objective : public testing::Test {
 protected:
  Objective() {
    std::string lines;
    for (int i = 0; i < 30; ++i)
      lines += R"({"prompt": "after )" + std::to_string(i) + R"( comes ", "completion": ")" +
               std::to_string(i + 1) + "\"}\n";
    spill(place_ / "pairs.jsonl", lines);
    spill(place_ / "replies.yaml",
          "name: replies\ntarget: cpu\n"
          "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
          "intermediate_size: 64}\n"
          "adapter: {type: lora, r: 4}\n"
          "objective: {name: polychromic, prompts: 3, replies: 3, weight: 1, kl: 0.1, prompt_tokens: 16, "
          "max_new_tokens: 8}\n"
          "data: {path: pairs.jsonl, format: chat, val_fraction: 0.1}\n"
          "train: {sequence_len: 48, micro_batch_size: 2, max_steps: 6, eval_steps: 0, log_steps: 1, "
          "optimizer: {learning_rate: 0.01}}\n"
          "optimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  }

  void train(const Words& more) const {
    const Outcome trained = place_.run(with({"-q", "replies.yaml"}, more));
    ASSERT_EQ(trained.code, 0) << trained.err;
  }

  void refused(const Words& words, const std::string& why) const {
    const Outcome outcome = place_.run(words);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
  }

  std::string file(const std::string& run, const std::string& name, int step = 6) const {
    return slurp(place_ / "runs" / run / ("checkpoint-" + std::to_string(step)) / name);
  }

  const Workplace place_;
};

TEST_F(Objective, IsOfCompressedModelsWithoutConvolutionsToo) {
  train({"model.attention_kind=ccgqa", "model.num_attention_heads=2", "model.num_key_value_heads=1",
         "model.head_dim=8", "model.ccgqa.compression=2", "model.ccgqa.head_conv=false",
         "model.ccgqa.channel_conv=false", "model.ccgqa.value_shift=false"});
  EXPECT_GT(records(place_ / "runs/replies/metrics.jsonl").back().value("diversity", 0.0), 0);
}

TEST_F(Objective, IsReportedInEveryRecord) {
  train({});
  const auto all = records(place_ / "runs/replies/metrics.jsonl");
  ASSERT_EQ(all.size(), 6u);
  for (const nlohmann::json& record : all) {
    EXPECT_GT(record["diversity"].get<double>(), 0);
    EXPECT_LT(record["diversity"].get<double>(), 2);
    EXPECT_GE(record["reply_tokens"].get<double>(), 1);
    EXPECT_LE(record["reply_tokens"].get<double>(), 8);
    EXPECT_GE(record["kl"].get<double>(), 0);
  }
  EXPECT_EQ(all[0]["kl"].get<double>(), 0);  // an adapter begins as none
  EXPECT_GT(all[5]["kl"].get<double>(), 0);
}

TEST_F(Objective, ARunThatWasStoppedGoesOnToTheSameBits) {
  train({});
  train({"name=parts", "train.save_steps=3"});
  fs::remove_all(place_ / "runs/parts/checkpoint-6");
  train({"name=parts", "train.save_steps=3", "--resume"});
  for (const char* name : {"adapter_model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(file("parts", name), file("replies", name)) << name;
  EXPECT_EQ(without_timing(slurp(place_ / "runs/parts/metrics.jsonl")),
            without_timing(slurp(place_ / "runs/replies/metrics.jsonl")));
}

TEST_F(Objective, OfWeight0TrainsWhatTheDataAloneTrains) {
  train({"objective.weight=0", "objective.kl=0"});
  train({"name=plain", "objective.name=none"});
  EXPECT_EQ(file("replies", "adapter_model.safetensors"), file("plain", "adapter_model.safetensors"));
  train({"name=weighted"});
  EXPECT_NE(file("weighted", "adapter_model.safetensors"), file("plain", "adapter_model.safetensors"));
}

TEST_F(Objective, MakesRepliesDiverseWhereNothingElseIsLearned) {
  // The data's own gradient is small beside it.
  train({"adapter.type=none", "objective.kl=0", "objective.weight=100", "train.max_steps=60",
         "train.optimizer.learning_rate=0.003", "objective.prompts=6"});
  const auto all = records(place_ / "runs/replies/metrics.jsonl");
  ASSERT_EQ(all.size(), 60u);
  double first = 0, last = 0;
  for (size_t i = 0; i < 10; ++i) {
    first += all[i]["diversity"].get<double>() / 10;
    last += all[50 + i]["diversity"].get<double>() / 10;
  }
  EXPECT_GT(last, first);
}

TEST_F(Objective, RefusesRecordsWithoutAPromptAndPromptsThatAreTooLong) {
  spill(place_ / "text.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"text\": \"no prompt\"}\n");
  refused({"replies.yaml", "data.path=text.jsonl", "data.val_fraction=0"},
          "text.jsonl:2: nothing stands before what is learned: the record has no prompt");
  spill(place_ / "long.jsonl", "{\"prompt\": \"a prompt of 21 bytes.\", \"completion\": \"b\"}\n");
  refused({"replies.yaml", "data.path=long.jsonl", "data.val_fraction=0"},
          "long.jsonl:1: the prompt is 21 tokens long, and objective.prompt_tokens is 16");
  spill(place_ / "empty.jsonl", "{\"prompt\": \"a\", \"completion\": \"\"}\n");
  refused({"replies.yaml", "data.path=empty.jsonl", "data.val_fraction=0"}, "the completion is empty");
  EXPECT_FALSE(fs::exists(place_ / "runs/replies"));
}

TEST_F(Objective, IsRefusedWhereNothingSamplesReplies) {
  refused({"emit", "replies.yaml", "-o", "out"}, "hydrac emit writes no programs that sample replies");
  refused({"bench", "replies.yaml"},
          "hydrac bench times steps without the replies that an objective samples");
  refused({"tune", "replies.yaml"}, "hydrac tune times steps without the replies that an objective samples");
  EXPECT_EQ(place_.run({"check", "replies.yaml"}).code, 0);
}

TEST_F(Objective, ItsRunsAreSampledFromAndMergedAsOthers) {
  train({});
  EXPECT_EQ(
      place_.run({"sample", "runs/replies", "--prompt", "after 3 comes ", "--max-new-tokens", "4"}).code, 0);
  const Outcome merged = place_.run({"merge", "runs/replies", "-o", "merged"});
  EXPECT_EQ(merged.code, 0) << merged.err;
}

const char* const kGrpo = "objective.name=grpo";

TEST_F(Objective, GrpoTrainsWhatACommandRewards) {
  // The share of a reply's characters that are from G to Z.
  spill(place_ / "reward.sh",
        R"(LC_ALL=C awk '{ sub(/.*"replies":\["/, ""); sub(/"\]}$/, ""); split($0, all, /","/)
  for (i = 1; i <= 3; ++i) print gsub(/[G-Z]/, "", all[i]) / 8 }'
)");
  train({kGrpo, "objective.reward.command=[sh, reward.sh]", "adapter.type=none", "objective.kl=0",
         "objective.weight=30", "objective.prompts=8", "train.max_steps=60",
         "train.optimizer.learning_rate=0.01"});
  const auto all = records(place_ / "runs/replies/metrics.jsonl");
  ASSERT_EQ(all.size(), 60u);
  double first = 0, last = 0;
  for (size_t i = 0; i < 10; ++i) {
    first += all[i]["reward"].get<double>() / 10;
    last += all[50 + i]["reward"].get<double>() / 10;
  }
  EXPECT_GT(last, first + 0.05);
}

TEST_F(Objective, ARewardCommandThatFailsLosesNothing) {
  spill(place_ / "reward.sh",
        "n=$(cat calls 2>/dev/null || echo 0); echo $((n + 1)) > calls; [ $n -lt 3 ] || exit 7; seq 9\n");
  const Words command = {"replies.yaml", "-q", kGrpo, "objective.reward.command=[sh, reward.sh]"};
  const Outcome failed = place_.run(command);
  EXPECT_EQ(failed.code, 3) << failed.out;
  EXPECT_NE(
      failed.err.find("step 4: objective.reward.command, sh reward.sh, ended with exit code 7\nthe newest "
                      "checkpoint is runs/replies/checkpoint-3\n"),
      std::string::npos)
      << failed.err;
  spill(place_ / "reward.sh", "seq 9\n");
  EXPECT_EQ(place_.run(with(command, {"--resume"})).code, 0);
  train({"name=whole", kGrpo, "objective.reward.command=[sh, reward.sh]"});
  EXPECT_EQ(file("replies", "adapter_model.safetensors"), file("whole", "adapter_model.safetensors"));
}

TEST_F(Objective, AFileCannotNameAProgramToRun) {
  spill(place_ / "grpo.yaml",
        "extends: replies.yaml\nobjective: {name: grpo, reward: {command: ./reward.sh}}\n");
  refused({"grpo.yaml"}, "a file cannot name a program that is run [objective-needs-reward]");
  refused({"replies.yaml", kGrpo}, "nothing says what replies are worth [objective-needs-reward]");
}

// specs/polychromic.yaml, shorter.
TEST(Polychromic, LearnsRepliesAndReportsDiversity) {
  const Workplace place;
  for (const char* name : {"examples", "specs"})
    fs::create_directory_symlink(fs::path(hydrac::test::source_dir()) / name, place / name);
  const Outcome trained = place.run(
      {"-q", "specs/polychromic.yaml", "train.max_steps=30", "train.log_steps=1", "sample.max_new_tokens=0"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto all = records(place / "runs/polychromic/metrics.jsonl");
  ASSERT_EQ(all.size(), 30u);
  EXPECT_LT(all[29]["loss"].get<double>(), 0.7 * all[0]["loss"].get<double>());
  for (const nlohmann::json& record : all) EXPECT_GT(record["diversity"].get<double>(), 0);
}

}  // namespace
}  // namespace hydrac::e2e
