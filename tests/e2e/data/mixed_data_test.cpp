// Training on several sources, with validation sets by name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

class MixedData : public testing::Test {
 protected:
  void SetUp() override {
    std::string letters, digits;
    for (int i = 0; i < 3000; ++i)
      letters += static_cast<char>('a' + i * i % 7), digits += static_cast<char>('0' + i % 3);
    spill(place_ / "letters.txt", letters);
    spill(place_ / "digits.txt", digits);
    spill(place_ / "mixed.yaml", R"(name: mixed
target: cpu
model: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2}
data: {mix: {letters: {path: letters.txt, weight: 3}, digits: digits.txt}, val_fraction: 0.1}
train: {sequence_len: 16, micro_batch_size: 4, gradient_accumulation_steps: 2, max_steps: 12, eval_steps: 6, eval_batches: 2,
        save_steps: 6, save_total_limit: 0, log_steps: 1}
optimizations: {threads: 1}
sample: {max_new_tokens: 0}
)");
  }
  std::vector<nlohmann::json> metrics(const std::string& run) const {
    std::vector<nlohmann::json> all;
    std::istringstream lines(slurp(place_ / run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
  std::string weights(const std::string& run) const {
    return slurp(place_ / run / "checkpoint-12/model.safetensors");
  }

  Workplace place_;
};

TEST_F(MixedData, MetricsHaveEachSourceAndEachValidationSet) {
  const Outcome outcome = place_.run({"mixed.yaml"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("75.0% of the sequences are of letters\n"), std::string::npos) << outcome.out;
  const std::vector<nlohmann::json> all = metrics("runs/mixed");
  ASSERT_EQ(all.size(), 12u);
  for (const nlohmann::json& record : all) {
    const double tokens = 8.0 * 16 * record["step"].get<double>();
    EXPECT_EQ(record["tokens_letters"].get<double>() + record["tokens_digits"].get<double>(), tokens);
    EXPECT_GT(record["epochs_letters"], 0);
    EXPECT_EQ(record.contains("eval_loss_digits"), record["step"].get<int>() % 6 == 0);
  }
  const nlohmann::json& last = all.back();
  EXPECT_NEAR((last["eval_loss_letters"].get<double>() + last["eval_loss_digits"].get<double>()) / 2,
              last["eval_loss"].get<double>(), 1e-12)
      << "as many targets of each";
  EXPECT_NE(last["eval_loss_letters"], last["eval_loss_digits"]);
}

TEST_F(MixedData, AResumedRunAndSeveralRanksHaveTheSameBatches) {
  ASSERT_EQ(place_.run({"mixed.yaml"}).code, 0);
  fs::copy(place_ / "runs/mixed", place_ / "runs/resumed", fs::copy_options::recursive);
  fs::remove_all(place_ / "runs/resumed/checkpoint-12");
  const Outcome resumed = place_.run({"mixed.yaml", "--resume", "output.dir=runs/resumed"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(weights("runs/resumed"), weights("runs/mixed"));
  const Outcome ranks = place_.run(
      {"mixed.yaml", "output.dir=runs/ranks", "parallel.data=2", "train.gradient_accumulation_steps=1"});
  ASSERT_EQ(ranks.code, 0) << ranks.err;
  const std::vector<nlohmann::json> one = metrics("runs/mixed"), two = metrics("runs/ranks");
  ASSERT_EQ(one.size(), two.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i]["tokens_letters"], two[i]["tokens_letters"]);
    EXPECT_NEAR(one[i]["loss"].get<double>(), two[i]["loss"].get<double>(), 1e-5);
  }

  fs::remove_all(place_ / "runs/resumed/checkpoint-12");
  const Outcome other =
      place_.run({"mixed.yaml", "--resume", "output.dir=runs/resumed", "data.mix.letters.weight=2"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("data.mix.letters.weight"), std::string::npos) << other.err;
  spill(place_ / "digits.txt", std::string(3000, '1'));
  const Outcome changed = place_.run({"mixed.yaml", "--resume", "output.dir=runs/resumed"});
  EXPECT_EQ(changed.code, 2) << changed.err;
}

TEST_F(MixedData, ARunLongerThanItsEpochsIsRefusedBeforeItsFirstStep) {
  const Outcome outcome = place_.run(
      {"mixed.yaml", "data.mix.letters.epochs=0.25", "data.mix.digits={path: digits.txt, epochs: 0.25}"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(
      outcome.err.find("max_steps is 12, and the epochs of data.mix allow 84 sequences, which are 10 steps"),
      std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(place_ / "runs"));
}

}  // namespace
}  // namespace hydrac::e2e
