// Objectives that generate: replies that are sampled while a model trains, and what is learned from them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/e2e/cli.h"
#include "tests/e2e/pairs.h"
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
    spill_pairs(place_);
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

// Convolutions and shifted values read no reply but their own: what scores replies beside each other has the
// probabilities of what sampled each by itself.
TEST_F(Objective, IsOfCompressedModelsToo) {
  spill(place_ / "reward.sh", "awk '{ for (i = 1; i <= 3; ++i) print length($0) % (i + 2) }'\n");
  const Words compressed = {"model.attention_kind=ccgqa", "model.num_attention_heads=2",
                            "model.num_key_value_heads=1", "model.head_dim=8", "model.ccgqa.compression=2"};
  train(compressed);
  train(
      with(compressed, {"name=rewarded", "objective.name=grpo", "objective.reward.command=[sh, reward.sh]"}));
  for (const char* run : {"replies", "rewarded"}) {
    const auto all = records(place_ / "runs" / run / "metrics.jsonl");
    ASSERT_EQ(all.size(), 6u);
    for (const nlohmann::json& record : all) {
      EXPECT_GT(record["diversity"].get<double>(), 0) << run;
      EXPECT_LT(record["sampling_gap"].get<double>(), 1e-5) << run;
    }
  }
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
    EXPECT_GE(record["sampling_gap"].get<double>(), 0);
    EXPECT_LT(record["sampling_gap"].get<double>(), 1e-5);
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
  refused({"bench", "replies.yaml", "--peer", "libtorch"},
          "hydrac bench --peer compares steps with LibTorch's, which learn next tokens alone");
  EXPECT_EQ(place_.run({"check", "replies.yaml"}).code, 0);
}

TEST_F(Objective, BenchSaysWhatAStepIsMadeOf) {
  const Outcome outcome = place_.run({"bench", "replies.yaml", "--steps", "3", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto result = nlohmann::json::parse(outcome.out);
  const auto& parts = result["objective"];
  EXPECT_EQ(parts["prompt_tokens"], 9 * 16);
  EXPECT_EQ(parts["reply_tokens"], 9 * 8);
  EXPECT_EQ(parts["decode_steps"], 7);  // the first token is prefill's
  double sum = 0;
  for (const char* part : {"prefill_ms", "decode_ms", "scoring_ms", "training_ms"}) {
    EXPECT_GT(parts[part].get<double>(), 0) << part;
    sum += parts[part].get<double>();
  }
  EXPECT_LT(sum, 3 * result["step_ms"].get<double>());  // medians of parts and of the whole
  EXPECT_FALSE(result["kernels"].empty());
  const Outcome text = place_.run({"bench", "replies.yaml", "--steps", "3"});
  EXPECT_NE(text.out.find("72 tokens of replies behind 144 of prompts"), std::string::npos) << text.out;
}

TEST_F(Objective, AblationAndTuningTimeThePartThatTrains) {
  const char* const note =
      "samples no replies: it times the part of a step that trains, in which 3 of 4 micro-batches are those "
      "of "
      "replies";
  const Outcome ablated = place_.run({"bench", "replies.yaml", "--ablate", "--steps", "2"});
  EXPECT_EQ(ablated.code, 0) << ablated.err;
  EXPECT_NE(ablated.err.find(note), std::string::npos) << ablated.err;
  const Outcome tuned = place_.run({"tune", "replies.yaml", "--objective", "memory", "-o", "replies.lock"});
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.err.find(note), std::string::npos) << tuned.err;
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

// Of ranks whose replies fill whole micro-batches, one each.
class RanksOfObjective : public Objective {
 protected:
  void SetUp() override { train(with(one(), {"name=one"})); }

  static Words base() {
    return {"objective.prompts=4", "objective.replies=2",     "adapter.dropout=0.1",
            "train.save_steps=3",  "train.max_grad_norm=0.1", "train.lr_scheduler.name=constant"};
  }
  static Words one() { return with(base(), {"train.gradient_accumulation_steps=2"}); }
  static Words two(int zero = 0) {
    return with(base(), {"parallel.data=2", "parallel.zero=" + std::to_string(zero)});
  }
  // Without times, the memory, of which one process needs more to accumulate, and the rounding of sampling: a
  // library may multiply fewer rows in another way.
  std::string metrics(const std::string& run) const {
    return std::regex_replace(without_timing(slurp(place_ / "runs" / run / "metrics.jsonl")),
                              std::regex(",\"(memory_gib|sampling_gap)\":[0-9.e-]+"), "");
  }
  void expect_same(const std::string& run, const std::string& other) const {
    for (const int step : {3, 6})
      for (const char* name :
           {"adapter_model.safetensors", "optimizer.safetensors", "state.json", "choices.json"})
        EXPECT_EQ(file(run, name, step), file(other, name, step)) << name << " of step " << step;
    EXPECT_EQ(metrics(run), metrics(other));
  }
};

TEST_F(RanksOfObjective, TrainAsOneProcessThatAccumulates) {
  train(with(two(), {"name=two"}));
  expect_same("two", "one");
  train(with(two(1), {"name=shared"}));
  expect_same("shared", "one");
}

TEST_F(RanksOfObjective, GoOnAsOneProcessAndTheOtherWayRound) {
  train(with(two(), {"name=mixed", "train.max_steps=3"}));
  train(with(one(), {"name=mixed", "--resume", "--exact"}));
  expect_same("mixed", "one");
  train(with(one(), {"name=parted", "train.max_steps=3"}));
  train(with(two(1), {"name=parted", "--resume", "--exact"}));
  expect_same("parted", "one");
}

// What a rank keeps is the sum of each micro-batch over ranks.
TEST_F(RanksOfObjective, ThatKeepPartsOfGradientsHaveTheSameBitsAtEveryRun) {
  train(with(two(2), {"name=parts"}));
  train(with(two(2), {"name=again", "train.max_steps=3"}));
  train(with(two(2), {"name=again", "--resume", "--exact"}));
  expect_same("parts", "again");
  EXPECT_EQ(records(place_ / "runs/parts/metrics.jsonl")[0]["diversity"],
            records(place_ / "runs/one/metrics.jsonl")[0]["diversity"]);
}

// Four ranks could answer eight prompts each, and four sequences have fewer than 32 items.
TEST_F(RanksOfObjective, ReplyToFewerPromptsThanTheyCould) {
  const Words few = with(base(), {"objective.prompts=32", "train.micro_batch_size=1", "train.max_steps=2"});
  train(with(few, {"name=few", "parallel.data=4"}));
  train(with(few, {"name=few-one", "train.gradient_accumulation_steps=4"}));
  EXPECT_EQ(records(place_ / "runs/few/metrics.jsonl")[0]["diversity"],
            records(place_ / "runs/few-one/metrics.jsonl")[0]["diversity"]);
}

TEST_F(RanksOfObjective, StartOneRewardCommandAStep) {
  // It sees all prompts: a line each.
  spill(place_ / "reward.sh",
        "n=$(cat calls 2>/dev/null || echo 0); echo $((n + 1)) > calls; cat > seen; wc -l < seen >> lines\n"
        "[ $n -ne 3 ] || exit 7; awk '{ print length($0); print length($0) % 7 }' seen\n");
  const Words rewarded = {kGrpo, "objective.reward.command=[sh, reward.sh]", "train.save_steps=0"};
  const Outcome failed = place_.run(with(with({"replies.yaml", "-q", "name=graded"}, two()), rewarded));
  EXPECT_EQ(failed.code, 3) << failed.out;
  EXPECT_NE(
      failed.err.find("step 4: objective.reward.command, sh reward.sh, ended with exit code 7\nthe newest "
                      "checkpoint is runs/graded/checkpoint-3\n"),
      std::string::npos)
      << failed.err;
  EXPECT_EQ(failed.err.find("rank 1"), std::string::npos) << failed.err;
  train(with(with(two(), rewarded), {"name=graded", "--resume"}));
  EXPECT_EQ(slurp(place_ / "calls"), "7\n");  // six steps, and the one that failed
  EXPECT_EQ(slurp(place_ / "lines"), "4\n4\n4\n4\n4\n4\n4\n");
  train(with(with(one(), rewarded), {"name=graded-one"}));
  EXPECT_EQ(metrics("graded"), metrics("graded-one"));
  EXPECT_EQ(file("graded", "adapter_model.safetensors"), file("graded-one", "adapter_model.safetensors"));
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
