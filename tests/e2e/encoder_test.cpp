// Replies that an encoder of sentences embeds: objective.embed names its folder.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/e2e/cli.h"
#include "tests/e2e/pairs.h"
#include "tests/unit/support/bert_folder.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

std::vector<double> diversities(const fs::path& metrics) {
  std::vector<double> all;
  std::istringstream lines(slurp(metrics));
  for (std::string line; std::getline(lines, line);)
    all.push_back(nlohmann::json::parse(line)["diversity"].get<double>());
  return all;
}

class ReplyEncoder : public testing::Test {
 protected:
  ReplyEncoder() {
    bert_.draw(5);
    bert_.write(place_ / "bert");
    spill_pairs(place_);
    spill(place_ / "replies.yaml",
          "name: replies\ntarget: cpu\n"
          "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 64}\n"
          "adapter: {type: lora, r: 4}\n"
          "objective: {name: polychromic, prompts: 3, replies: 3, weight: 1, prompt_tokens: 16, "
          "max_new_tokens: 8,\n"
          "  embed: bert}\n"
          "data: {path: pairs.jsonl, format: chat, val_fraction: 0.1}\n"
          "train: {sequence_len: 48, micro_batch_size: 2, max_steps: 6, eval_steps: 0, log_steps: 1, "
          "optimizer: {learning_rate: 0.01}}\n"
          "optimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  }

  void train(const Words& more = {}) const {
    const Outcome trained = place_.run(with({"-q", "replies.yaml"}, more));
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  // Nothing is made, and the reason stands at the key.
  void refused(const std::string& why) const {
    const Outcome outcome = place_.run({"replies.yaml"});
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_NE(outcome.err.find("replies.yaml:6:10: error: " + why), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(place_ / "runs/replies"));
  }
  std::vector<double> diversity(const std::string& run = "replies") const {
    return diversities(place_ / "runs" / run / "metrics.jsonl");
  }
  std::string file(const std::string& run, const std::string& name) const {
    return slurp(place_ / "runs" / run / "checkpoint-6" / name);
  }

  const Workplace place_;
  test::BertFolder bert_;
};

TEST_F(ReplyEncoder, GivesTheDiversityOfEveryStep) {
  train();
  const std::vector<double> found = diversity();
  ASSERT_EQ(found.size(), 6u);
  for (const double of_step : found) {
    EXPECT_GT(of_step, 0);
    EXPECT_LT(of_step, 2);
  }
  train({"name=states", "objective.embed=model"});
  EXPECT_NE(diversity("states")[0], found[0]);
  EXPECT_NE(file("states", "adapter_model.safetensors"), file("replies", "adapter_model.safetensors"));
}

TEST_F(ReplyEncoder, ARunThatWasStoppedGoesOnToTheSameBitsWhereverItsFolderIs) {
  train();
  train({"name=parts", "train.save_steps=3"});
  fs::remove_all(place_ / "runs/parts/checkpoint-6");
  fs::rename(place_ / "bert", place_ / "moved");
  train({"name=parts", "train.save_steps=3", "objective.embed=moved", "--resume"});
  for (const char* name : {"adapter_model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(file("parts", name), file("replies", name)) << name;
  EXPECT_EQ(diversity("parts"), diversity());
}

TEST_F(ReplyEncoder, ARunDoesNotGoOnWithAnother) {
  train();
  const auto resumed_error = [&] {
    const Outcome outcome = place_.run({"replies.yaml", "train.max_steps=8", "--resume"});
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    return outcome.err;
  };
  test::BertFolder other;
  other.draw(6);
  other.write_weights(place_ / "bert");
  EXPECT_NE(resumed_error().find("objective.embed"), std::string::npos);
  bert_.write_weights(place_ / "bert");
  spill(place_ / "bert/tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_NE(resumed_error().find("objective.embed"), std::string::npos);
}

TEST_F(ReplyEncoder, PoolsAsSentenceTransformersSays) {
  train();
  spill(place_ / "bert/modules.json",
        R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
            {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
  fs::create_directory(place_ / "bert/1_Pooling");
  spill(place_ / "bert/1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  train({"name=mean"});
  EXPECT_EQ(diversity("mean"), diversity());
  spill(place_ / "bert/1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  train({"name=first"});
  EXPECT_NE(diversity("first")[0], diversity()[0]);
}

TEST_F(ReplyEncoder, IsReportedBesideRewardsToo) {
  train({"objective.weight=0"});
  spill(place_ / "reward.sh", "seq 9\n");
  train({"name=rewarded", "objective.name=grpo", "objective.weight=0",
         "objective.reward.command=[sh, reward.sh]"});
  EXPECT_EQ(diversity("rewarded"), diversity());
}

TEST_F(ReplyEncoder, ItsRunsAreSampledFromAndMergedWithoutIt) {
  train();
  fs::remove_all(place_ / "bert");
  const Outcome sampled =
      place_.run({"sample", "runs/replies", "--prompt", "after 3 comes ", "--max-new-tokens", "4"});
  EXPECT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_EQ(sampled.err.find("objective"), std::string::npos) << sampled.err;
  const Outcome merged = place_.run({"merge", "runs/replies", "-o", "merged"});
  EXPECT_EQ(merged.code, 0) << merged.err;
}

TEST_F(ReplyEncoder, WithoutATokenizerOfItsKindIsRefused) {
  fs::remove(place_ / "bert/vocab.txt");
  refused("bert: there is neither tokenizer.json nor vocab.txt [encoder-unusable]");
  spill(place_ / "bert/tokenizer.json", R"({"model": {"type": "BPE"}})");
  refused(
      "bert/tokenizer.json: \"model\" is \"BPE\"; an encoder's tokenizer has WordPiece [encoder-unusable]");
  fs::remove(place_ / "bert/tokenizer.json");
  std::string list;
  for (const std::string& token : test::BertFolder::vocabulary()) list += token + "\n";
  spill(place_ / "bert/vocab.txt", list + "more\n");
  const size_t size = test::BertFolder::vocabulary().size();
  refused("bert: the tokenizer has the id " + std::to_string(size) + ", and vocab_size in config.json is " +
          std::to_string(size) + " [encoder-unusable]");
}

TEST_F(ReplyEncoder, WithDamagedOrOtherWeightsIsRefused) {
  const fs::path weights = place_ / "bert/model.safetensors";
  const std::string whole = slurp(weights);
  fs::remove(weights);
  refused("bert: there is neither model.safetensors nor model.safetensors.index.json [encoder-unusable]");
  spill(weights, whole.substr(0, whole.size() / 2));
  refused("bert/model.safetensors: ");
  bert_.tensors.erase("encoder.layer.0.intermediate.dense.weight");
  bert_.write_weights(place_ / "bert");
  refused("bert: these are not the weights of its config.json:");
}

// specs/polychromic.yaml, shorter.
TEST_F(ReplyEncoder, EmbedsTheRepliesOfTheShippedSpec) {
  for (const char* name : {"examples", "specs"})
    fs::create_directory_symlink(fs::path(hydrac::test::source_dir()) / name, place_ / name);
  const Outcome trained = place_.run({"-q", "specs/polychromic.yaml", "objective.embed=bert",
                                      "train.max_steps=20", "train.log_steps=1", "sample.max_new_tokens=0"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::vector<double> all = diversities(place_ / "runs/polychromic/metrics.jsonl");
  ASSERT_EQ(all.size(), 20u);
  for (const double diversity : all) EXPECT_GT(diversity, 0);
}

}  // namespace
}  // namespace hydrac::e2e
