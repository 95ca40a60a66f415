// Low-rank adapters: what their checkpoints hold, how runs go on, and the model that `merge` makes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/tensor_io.h"
#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using runtime::SafetensorsReader;
using test::slurp;
using test::spill;

double greatest_difference(const std::vector<float>& x, const std::vector<float>& y) {
  double most = 0;
  EXPECT_EQ(x.size(), y.size());
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
  return most;
}

// A tiny model in Llama's form in a folder `model`, and a spec that trains adapters beside it.
class Adapters : public testing::Test {
 protected:
  Adapters() {
    make_model("model", {});
    spill(place_ / "lora.yaml",
          "name: lora\ntarget: cpu\nmodel: {from: model}\nadapter: {type: lora, r: 4, dropout: 0.1}\n"
          "data: {path: corpus.txt, val_fraction: 0}\n"
          "train: {sequence_len: 16, micro_batch_size: 2, max_steps: 6, optimizer: {learning_rate: 0.01}}\n"
          "optimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  }

  void make_model(const std::string& folder, const Words& more) const {
    const Outcome trained = place_.run(with(
        {"-q", "base.yaml", "train.max_steps=2", "train.eval_steps=0", "name=" + folder + "-run"}, more));
    EXPECT_EQ(trained.code, 0) << trained.err;
    fs::remove_all(place_ / folder);
    fs::create_directory(place_ / folder);
    for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"})
      fs::copy_file(place_ / ("runs/" + folder + "-run") / "checkpoint-2" / name, place_ / folder / name);
  }

  void train(const Words& more = {}) const {
    const Outcome trained = place_.run(with({"-q", "lora.yaml"}, more));
    ASSERT_EQ(trained.code, 0) << trained.err;
  }

  void refused(const Words& words, const std::string& why, int code = 2) const {
    const Outcome outcome = place_.run(words);
    EXPECT_EQ(outcome.code, code) << outcome.out;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
  }

  std::vector<float> logits(const std::string& of) const {
    const Outcome outcome = place_.run({"sample", of, "--threads", "1", "--logits", "--prompt", "line 1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["logits"];
  }

  const Workplace place_;
  const fs::path checkpoint_ = place_ / "runs/lora/checkpoint-6";
};

TEST_F(Adapters, CheckpointsHoldTheAdapterAloneAsPeftNamesIt) {
  train({"adapter.target_modules=[q_proj, mlp.up_proj]", "adapter.alpha=6"});
  EXPECT_FALSE(fs::exists(checkpoint_ / "model.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint_ / "config.json"));
  const SafetensorsReader reader(checkpoint_ / "adapter_model.safetensors");
  std::vector<std::string> names;
  for (const runtime::TensorEntry& tensor : reader.tensors()) names.push_back(tensor.name);
  const std::string at = "base_model.model.model.layers.";
  std::vector<std::string> expected;
  for (const char* layer : {"0", "1"}) {
    for (const char* module : {".mlp.up_proj", ".self_attn.q_proj"}) {
      for (const char* matrix : {".lora_A.weight", ".lora_B.weight"})
        expected.push_back(at + layer + module + matrix);
    }
  }
  EXPECT_EQ(names, expected);
  EXPECT_EQ(reader.at(at + "0.mlp.up_proj.lora_A.weight").shape, (std::vector<int64_t>{4, 64}));
  EXPECT_EQ(reader.at(at + "0.mlp.up_proj.lora_B.weight").shape, (std::vector<int64_t>{128, 4}));
  const auto config = nlohmann::json::parse(slurp(checkpoint_ / "adapter_config.json"));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["lora_alpha"], 6);
  EXPECT_EQ(config["target_modules"], (std::vector<std::string>{"q_proj", "mlp.up_proj"}));
  EXPECT_EQ(config["base_model_name_or_path"], "model");
  EXPECT_EQ(config["fan_in_fan_out"], false);
  EXPECT_NE(place_.run({"check", "lora.yaml"})
                .out.find("\ncheckpoints are adapters of Hugging Face's llama: PEFT loads them\n"),
            std::string::npos);
}

TEST_F(Adapters, AResumedRunGoesOnBitForBit) {
  train();
  const std::string whole = slurp(checkpoint_ / "adapter_model.safetensors");
  train({"train.max_steps=3", "output.dir=runs/parts", "train.lr_scheduler.decay_steps=6"});
  train({"--resume", "output.dir=runs/parts", "train.lr_scheduler.decay_steps=6"});
  EXPECT_EQ(slurp(place_ / "runs/parts/checkpoint-6/adapter_model.safetensors"), whole);
}

TEST_F(Adapters, AnotherRunGoesOnFromAnAdaptersFolder) {
  train({"adapter.target_modules=[q_proj, up_proj]", "adapter.alpha=5"});
  const std::string trained = slurp(checkpoint_ / "adapter_model.safetensors");
  std::string spec = slurp(place_ / "lora.yaml");
  const std::string written = "{type: lora, r: 4, dropout: 0.1}";
  spec.replace(spec.find(written), written.size(), "{from: runs/lora/checkpoint-6}");
  spill(place_ / "more.yaml", spec);
  const Words still = {"more.yaml", "train.optimizer.learning_rate=0", "train.max_steps=1",
                       "output.dir=runs/more"};
  const Outcome more = place_.run(still);
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_NE(more.out.find("adapter of runs/lora/checkpoint-6\n"), std::string::npos) << more.out;
  EXPECT_EQ(slurp(place_ / "runs/more/checkpoint-1/adapter_model.safetensors"), trained);
  EXPECT_EQ(slurp(place_ / "runs/more/checkpoint-1/adapter_config.json"),
            slurp(checkpoint_ / "adapter_config.json"));
  // Another rank, other modules, a file that is not there.
  refused(with(still, {"adapter.r=8"}), "adapter_model.safetensors: ");
  refused(with(still, {"adapter.target_modules=[q_proj]"}), "the model has no tensor \"base_model.model.");
  refused(with(still, {"adapter.target_modules=all-linear"}), "adapter_model.safetensors: ");
  refused(with(still, {"adapter.weights=nowhere"}), "nowhere/adapter_model.safetensors");
}

TEST_F(Adapters, KnowTheModelThatTheyWereTrainedBeside) {
  train();
  make_model("model", {"train.seed=8"});
  refused({"lora.yaml", "--resume", "train.max_steps=7"}, "model.weights, the files: ");
  const std::string why = "the adapter was trained beside other weights than those of model\n";
  refused({"sample", "runs/lora"}, why);
  refused({"merge", "runs/lora", "-o", "merged"}, why);
  EXPECT_FALSE(fs::exists(place_ / "merged"));
  // Of random weights the seed is the model.
  train({"model.weights=none", "output.dir=runs/random"});
  refused({"lora.yaml", "--resume", "train.max_steps=7", "model.weights=none", "output.dir=runs/random",
           "train.seed=9"},
          "train.seed: ");
}

TEST_F(Adapters, MergedModelsComputeWhatBaseAndAdapterCompute) {
  for (const Words& of :
       {Words{}, Words{"model.weights=none"}, Words{"adapter.target_modules=[v_proj, gate_proj]"}}) {
    train(of);
    const Outcome merged = place_.run({"merge", "runs/lora", "-o", "merged"});
    ASSERT_EQ(merged.code, 0) << merged.err;
    EXPECT_NE(merged.out.find("its logits differ by up to "), std::string::npos) << merged.out;
    EXPECT_LT(greatest_difference(logits("merged"), logits("runs/lora")), 1e-4);
    EXPECT_GT(greatest_difference(logits("merged"), logits("model")), 0.01);
    // It is a model to begin with.
    const Outcome checked = place_.run({"check", "lora.yaml", "model.from=merged", "adapter.type=none"});
    EXPECT_EQ(checked.code, 0) << checked.err;
    fs::remove_all(place_ / "merged");
  }
}

TEST_F(Adapters, BesideABaseOfFourBitsGoOnAndMerge) {
  for (const Words& weights : {Words{}, Words{"model.weights=none"}}) {
    const Words nf4 = with({"adapter.base=nf4"}, weights);
    train(nf4);
    const std::string whole = slurp(checkpoint_ / "adapter_model.safetensors");
    train(with({"train.max_steps=3", "output.dir=runs/parts", "train.lr_scheduler.decay_steps=6"}, nf4));
    train(with({"--resume", "output.dir=runs/parts", "train.lr_scheduler.decay_steps=6"}, nf4));
    EXPECT_EQ(slurp(place_ / "runs/parts/checkpoint-6/adapter_model.safetensors"), whole);
    refused(with({"lora.yaml", "--resume", "train.max_steps=7"}, weights), "adapter.base: ");
    // The merged base is what its codes stand for.
    const Outcome merged = place_.run({"merge", "runs/lora", "-o", "merged"});
    ASSERT_EQ(merged.code, 0) << merged.err;
    EXPECT_LT(greatest_difference(logits("merged"), logits("runs/lora")), 1e-4);
    fs::remove_all(place_ / "merged");
    fs::remove_all(place_ / "runs/parts");
    fs::remove_all(place_ / "runs/lora");
  }
}

TEST_F(Adapters, MergeRefusesWhatRoundsTheAdapterAway) {
  train({"train.max_steps=1", "train.optimizer.learning_rate=1.0e-7", "output.dir=runs/tiny"});
  refused({"merge", "runs/tiny", "-o", "merged", "--dtype", "bf16"},
          "bf16 rounds away what was trained; nothing is written, --dtype fp32 keeps it\n", 3);
  EXPECT_FALSE(fs::exists(place_ / "merged"));
  EXPECT_EQ(place_.run({"merge", "runs/tiny", "-o", "merged", "--dtype", "fp32"}).code, 0);
  refused({"merge", "runs/tiny", "-o", "merged"}, "merged exists, and merge overwrites nothing");
  refused({"merge", "runs/model-run", "-o", "other"}, "is no adapter: `hydrac export` writes its model");
  refused({"export", "runs/tiny", "-o", "other"},
          "`hydrac merge runs/tiny -o other` makes a whole model of it");
}

// The shipped one: a tiny Llama that knows no conversations learns to answer questions.
TEST(AdapterExample, LearnsRepliesAndMerges) {
  const Workplace place;
  const std::string example = test::source_dir() + "/examples/lora/";
  const Outcome trained = place.run({example + "lora.yaml"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("adapters with 19.5k parameters beside 131k that stay as they are"),
            std::string::npos)
      << trained.out;
  std::vector<double> losses;
  std::istringstream records(slurp(place / "runs/lora/metrics.jsonl"));
  for (std::string line; std::getline(records, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.contains("loss")) losses.push_back(record["loss"]);
  }
  ASSERT_GT(losses.size(), 10u);
  EXPECT_GT(losses.front(), 1);
  EXPECT_LT(losses.back(), losses.front() / 4);
  const Outcome merged = place.run({"merge", "runs/lora", "-o", "merged"});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_NE(merged.out.find(" of weights in bfloat16, of "), std::string::npos) << merged.out;
  const auto logits = [&](const std::string& of) -> std::vector<float> {
    const Outcome outcome =
        place.run({"sample", of, "--logits", "--prompt", "What is the opposite of east? ", "--threads", "1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["logits"];
  };
  const std::vector<float> one = logits("merged"), two = logits("runs/lora");
  const float largest = *std::ranges::max_element(two);
  EXPECT_GT(largest, 5);
  EXPECT_LT(greatest_difference(one, two), 0.06 * largest) << "more than bf16 rounds";
  EXPECT_EQ(std::ranges::max_element(one) - one.begin(), std::ranges::max_element(two) - two.begin());
}

}  // namespace
}  // namespace hydrac::e2e
