// A training run from its command line to the folder it leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "runtime/checkpoint/safetensors.h"
#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using Json = nlohmann::json;
using test::slurp;
using test::spill;

// Hugging Face's names and shapes of a Llama with this spec's sizes.
std::map<std::string, std::vector<int64_t>> llama_tensors() {
  std::map<std::string, std::vector<int64_t>> tensors = {{"model.embed_tokens.weight", {256, 64}},
                                                         {"model.norm.weight", {64}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    tensors[layer + "input_layernorm.weight"] = {64};
    tensors[layer + "post_attention_layernorm.weight"] = {64};
    tensors[layer + "self_attn.q_proj.weight"] = {64, 64};
    tensors[layer + "self_attn.k_proj.weight"] = {32, 64};
    tensors[layer + "self_attn.v_proj.weight"] = {32, 64};
    tensors[layer + "self_attn.o_proj.weight"] = {64, 64};
    tensors[layer + "mlp.gate_proj.weight"] = {128, 64};
    tensors[layer + "mlp.up_proj.weight"] = {128, 64};
    tensors[layer + "mlp.down_proj.weight"] = {64, 128};
  }
  return tensors;
}

void expect_checkpoint(const fs::path& dir) {
  std::map<std::string, std::vector<int64_t>> tensors;
  const runtime::SafetensorsReader model(dir / "model.safetensors");
  for (const auto& tensor : model.tensors()) {
    tensors[tensor.name] = tensor.shape;
    EXPECT_EQ(tensor.dtype, runtime::SafetensorsDtype::f32) << tensor.name;
  }
  EXPECT_EQ(tensors, llama_tensors());
  const Json config = Json::parse(slurp(dir / "config.json"));
  EXPECT_EQ(config["architectures"], Json({"LlamaForCausalLM"}));
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["hidden_size"], 64);
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["intermediate_size"], 128);
  EXPECT_EQ(config["hidden_act"], "silu");
  EXPECT_EQ(config["vocab_size"], 256);
}

std::set<std::string> keys_of(const Json& record) {
  std::set<std::string> keys;
  for (const auto& [key, value] : record.items()) keys.insert(key);
  return keys;
}

void expect_metrics(const std::string& text) {
  const std::set<std::string> always = {
      "step",    "loss",        "grad_norm",   "learning_rate", "tokens_per_second", "samples_per_second",
      "step_ms", "step_ms_p50", "step_ms_p95", "step_ms_max",   "data_wait_ms",      "memory_gib"};
  std::istringstream lines(text);
  std::string line;
  int step = 0;
  while (std::getline(lines, line)) {
    const Json record = Json::parse(line);
    std::set<std::string> wanted = always;
    if (++step % 4 == 0) wanted.insert({"eval_loss", "eval_perplexity"});
    EXPECT_EQ(keys_of(record), wanted) << line;
    EXPECT_EQ(record["step"], step);
    EXPECT_NEAR(record["loss"].get<double>(), 5.5, 0.5);  // about log(256), and falling
    EXPECT_GT(record["tokens_per_second"].get<double>(), 0);
  }
  EXPECT_EQ(step, 12);
}

TEST(Run, LeavesMetricsSpecEventsAndACheckpointUnderHuggingFacesNames) {
  const Workplace place;
  const Outcome outcome = place.run({"base.yaml"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const fs::path run = place / "runs/base";
  Words files = {"events.out.tfevents.0000000000.hydrac", "metrics.jsonl", "spec.yaml"};
  for (int step = 2; step <= 12; step += 2) {
    for (const char* name :
         {"choices.json", "config.json", "generation_config.json", "manifest.json", "model.safetensors",
          "optimizer.safetensors", "state.json", "tokenizer.json", "tokenizer_config.json"}) {
      files.push_back("checkpoint-" + std::to_string(step) + "/" + name);
    }
  }
  std::ranges::sort(files);
  EXPECT_EQ(files_below(run), files);
  EXPECT_GT(fs::file_size(run / "events.out.tfevents.0000000000.hydrac"), 500u);
  expect_metrics(slurp(run / "metrics.jsonl"));
  expect_checkpoint(run / "checkpoint-12");
}

TEST(Run, ItsSpecAsResolvedGivesTheSameRunAgain) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);
  const Outcome again = place.run({"-q", "runs/base/spec.yaml", "output.dir=runs/again"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(slurp(place / "runs/base/checkpoint-12/model.safetensors") ==
              slurp(place / "runs/again/checkpoint-12/model.safetensors"));
}

TEST(Run, ItsLearningRateWarmsUpFromTheFirstStepAndEndsAtTheRatio) {
  const Workplace place;
  for (const std::string name : {"linear", "cosine", "wsd"}) {
    const Outcome outcome =
        place.run({"base.yaml", "output.dir=runs/" + name, "train.lr_scheduler.name=" + name,
                   "train.lr_scheduler.warmup_steps=3", "train.eval_steps=0"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::vector<double> rates;
    std::istringstream lines(slurp(place / "runs" / name / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) rates.push_back(Json::parse(line)["learning_rate"]);
    ASSERT_EQ(rates.size(), 12u);
    EXPECT_EQ(rates[0], 1e-4) << name;
    EXPECT_EQ(rates[2], 3e-4) << name;
    EXPECT_EQ(rates[11], 3e-5) << name;
    EXPECT_NE(outcome.out.find("step 12/12"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("lr 3.0e-05"), std::string::npos) << outcome.out;
  }
}

TEST(Run, OfEpochsIsThatOfItsStepsAndResumesAsItself) {
  const Workplace place;
  const Outcome run = place.run({"base.yaml", "train.epochs=0.5", "output.dir=runs/epochs"});
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string resolved = slurp(place / "runs/epochs/spec.yaml");
  const size_t at = resolved.find("max_steps: ");
  ASSERT_NE(at, std::string::npos) << resolved;
  const std::string steps = resolved.substr(at + 11, resolved.find('\n', at) - at - 11);
  EXPECT_NE(run.out.find("step " + steps + "/" + steps), std::string::npos) << run.out;
  const Outcome again = place.run({"base.yaml", "train.epochs=0.5", "output.dir=runs/epochs", "--resume"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("is complete"), std::string::npos) << again.out;
  ASSERT_EQ(place.run({"-q", "base.yaml", "train.max_steps=" + steps, "output.dir=runs/steps"}).code, 0);
  EXPECT_EQ(slurp(place / "runs/steps" / ("checkpoint-" + steps) / "model.safetensors"),
            slurp(place / "runs/epochs" / ("checkpoint-" + steps) / "model.safetensors"));
}

TEST(Run, WithoutShuffleIsAnotherRunAndResumesAsItself) {
  const Workplace place;
  const auto end_of = [&](const std::string& run) {
    return slurp(place / "runs" / run / "checkpoint-12" / "model.safetensors");
  };
  ASSERT_EQ(place.run({"-q", "base.yaml", "output.dir=runs/shuffled"}).code, 0);
  ASSERT_EQ(place.run({"-q", "base.yaml", "output.dir=runs/whole", "data.shuffle=false"}).code, 0);
  ASSERT_EQ(place.run({"-q", "base.yaml", "output.dir=runs/halves", "data.shuffle=false"}).code, 0);
  for (const int step : {10, 12})  // it goes on from step 8

    fs::remove_all(place / "runs/halves" / ("checkpoint-" + std::to_string(step)));
  ASSERT_EQ(place.run({"-q", "base.yaml", "output.dir=runs/halves", "data.shuffle=false", "--resume"}).code,
            0);
  EXPECT_EQ(end_of("halves"), end_of("whole"));
  EXPECT_NE(end_of("shuffled"), end_of("whole"));
}

TEST(Run, TheSameCommandTwiceKeepsBothRunsAndTakesKernelsFromTheCache) {
  const Workplace place;
  ASSERT_EQ(place.run({"base.yaml"}).code, 0);
  const Outcome second = place.run({"base.yaml"});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.out.find(" kernels from the cache in "), std::string::npos) << second.out;
  EXPECT_NE(second.out.find(
                "moved the earlier run in runs/base to runs/base.1; --resume would have continued it\n"),
            std::string::npos)
      << second.out;
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}) {
    const std::string file = std::string("checkpoint-12/") + name;
    EXPECT_TRUE(slurp(place / ("runs/base/" + file)) == slurp(place / ("runs/base.1/" + file))) << file;
  }
  EXPECT_EQ(without_timing(slurp(place / "runs/base/metrics.jsonl")),
            without_timing(slurp(place / "runs/base.1/metrics.jsonl")));
}

TEST(Run, ASecondRunInAFolderOfOtherFilesMovesOnlyItsOwn) {
  const Workplace place;
  fs::create_directory(place / "data");
  fs::copy_file(place / "corpus.txt", place / "data/corpus.txt");
  const Words command = {"base.yaml", "-q", "data.path=data/corpus.txt", "output.dir=data"};
  for (int time = 0; time < 2; ++time) {
    const Outcome outcome = place.run(command);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  EXPECT_EQ(slurp(place / "data/corpus.txt"), slurp(place / "corpus.txt"));
  EXPECT_FALSE(fs::exists(place / "data.1/corpus.txt"));
  for (const char* folder : {"data", "data.1"})
    EXPECT_TRUE(fs::exists(place / folder / "checkpoint-12/manifest.json")) << folder;
}

TEST(Run, AFolderThatASpecNamesStaysBelowTheWorkingFolderAlsoBehindLinks) {
  const Workplace place, elsewhere;
  fs::create_directory_symlink(elsewhere.path(), place / "link");
  spill(place / "leaves.yaml", base_spec() + "output: {dir: link/run}\n");
  const Outcome refused = place.run({"leaves.yaml"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("error: output.dir link/run leads through a link to outside the working folder "
                             "[unsafe-path]"),
            std::string::npos)
      << refused.err;
  EXPECT_FALSE(fs::exists(elsewhere / "run"));
  const Outcome asked = place.run({"leaves.yaml", "-q", "output.dir=link/run"});
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_TRUE(fs::exists(elsewhere / "run/metrics.jsonl"));
}

TEST(Run, SaveBestLinksTheCheckpointOfTheLeastValidationLoss) {
  const Workplace place;
  ASSERT_EQ(place.run({"base.yaml", "-q", "train.save_best=true", "train.save_steps=0"}).code, 0);
  std::map<double, int64_t> evaluations;
  std::istringstream lines(slurp(place / "runs/base/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line);
    if (record.contains("eval_loss")) evaluations.emplace(record["eval_loss"], record["step"]);
  }
  ASSERT_EQ(evaluations.size(), 3u);
  EXPECT_EQ(fs::read_symlink(place / "runs/base/checkpoint-best"),
            "checkpoint-" + std::to_string(evaluations.begin()->second));
  const Outcome sampled = place.run({"sample", "runs/base/checkpoint-best", "--max-new-tokens", "3"});
  EXPECT_EQ(sampled.code, 0) << sampled.err;
}

TEST(Run, QuietPrintsNothing) {
  const Workplace place;
  const Outcome outcome = place.run({"base.yaml", "-q", "sample.max_new_tokens=5"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(fs::exists(place / "runs/base/checkpoint-12/manifest.json"));
}

TEST(Run, SaveTotalLimitKeepsTheNewestCheckpoints) {
  const Workplace place;
  ASSERT_EQ(place.run({"base.yaml", "-q", "train.save_total_limit=2"}).code, 0);
  Words folders;
  for (const auto& entry : fs::directory_iterator(place / "runs/base")) {
    if (entry.is_directory()) folders.push_back(entry.path().filename());
  }
  std::ranges::sort(folders);
  EXPECT_EQ(folders, (Words{"checkpoint-10", "checkpoint-12"}));
}

TEST(Run, KernelsThatSomethingDamagedInTheCacheAreCompiledAgain) {
  const Workplace place;
  const std::map<std::string, std::string> own_cache = {{"HYDRAC_CACHE", (place / "cache").string()}};
  ASSERT_EQ(place.run({"-q", "base.yaml"}).code, 0);  // the shared cache has them now
  fs::create_directory(place / "cache");
  int libraries = 0;
  for (const auto& entry : fs::directory_iterator(shared_cache())) {
    if (entry.path().extension() != ".so") continue;
    spill(place / "cache" / entry.path().filename(), "no library");
    ++libraries;
  }
  ASSERT_GT(libraries, 0);
  const Outcome outcome = place.run({"base.yaml"}, own_cache);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(" kernels compiled in "), std::string::npos) << outcome.out;
}

// Which class it is follows from the feature, or from nothing.
TEST(Run, AccuracySaysWhetherClassesCanBeToldApart) {
  const Workplace place;
  std::string csv = "signal,sign,chance\n";
  std::mt19937 random(5);
  for (int row = 0; row < 600; ++row) {
    const int signal = static_cast<int>(random() % 201) - 100, chance = static_cast<int>(random() % 2);
    csv += std::to_string(signal) + "," + (signal > 0 ? "1" : "0") + "," + std::to_string(chance) + "\n";
  }
  spill(place / "rows.csv", csv);
  spill(place / "classes.yaml",
        "name: classes\ntarget: cpu\nmodel: {input: series, head: classification, num_labels: 2, "
        "hidden_size: 32, "
        "num_hidden_layers: 1, num_attention_heads: 2}\ndata: {path: rows.csv, features: [signal], target: "
        "sign, "
        "val_fraction: 0.2}\ntrain: {sequence_len: 8, micro_batch_size: 8, max_steps: 60, eval_steps: 30, "
        "optimizer: {learning_rate: 0.01}}\noptimizations: {threads: 1}\n");
  const auto accuracy = [&](const Words& more) {
    const Outcome outcome = place.run(with({"classes.yaml"}, more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("  accuracy "), std::string::npos) << outcome.out;
    const std::string metrics = slurp(place / "runs/classes/metrics.jsonl");
    const auto last = Json::parse(metrics.substr(metrics.rfind("{\"step\"")));
    EXPECT_FALSE(last.contains("eval_perplexity"));
    return last.at("eval_accuracy").get<double>();
  };
  EXPECT_GT(accuracy({}), 0.97);
  EXPECT_EQ(accuracy({"parallel.data=2", "train.micro_batch_size=4"}),
            accuracy({"train.micro_batch_size=4", "train.gradient_accumulation_steps=2"}));
  EXPECT_NEAR(accuracy({"data.target=chance"}), 0.5, 0.2);
}

TEST(Profile, ShowsEveryCallOfItsStepsAndChangesNoBit) {
  const Workplace place;
  const Words timed = {"base.yaml", "profile.start=3", "profile.steps=2", "output.dir=timed"};
  const Outcome outcome = place.run(timed);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("wrote timed/trace.json: "), std::string::npos) << outcome.out;
  ASSERT_EQ(place.run({"base.yaml", "output.dir=plain"}).code, 0);
  const std::string weights = "checkpoint-12/model.safetensors";
  EXPECT_EQ(slurp(place / "timed" / weights), slurp(place / "plain" / weights));

  std::map<std::string, int> calls;  // by name
  const auto trace = Json::parse(slurp(place / "timed/trace.json"));
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") ++calls[event.at("name")];
  }
  EXPECT_EQ(calls["step 3"] + calls["step 4"], 2);
  EXPECT_EQ(calls["step 5"], 0);
  EXPECT_EQ(calls["kernel adamw"], 2);
  EXPECT_GT(calls["kernel attention_backward"], 0);
}

}  // namespace
}  // namespace hydrac::e2e
