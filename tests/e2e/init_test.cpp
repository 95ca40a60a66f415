// `hydrac init`: a spec for somebody's data and hardware that fits and trains as it is.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

void write_text(const Workplace& place) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += std::to_string(i) + " is a number, and not the last one.\n";
  spill(place / "text.txt", text);
}

void write_series(const Workplace& place) {
  std::string csv = "date,open,close,direction\n";
  for (int i = 0; i < 600; ++i) {
    const std::string n = std::to_string(i % 17);
    csv += "2024-01-" + n + "," + n + "," + n + ".5," + std::to_string(i % 3) + "\n";
  }
  spill(place / "days.csv", csv);
}

nlohmann::json checked(const Workplace& place, const std::string& spec) {
  const Outcome check = place.run({"check", spec, "--json"});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_EQ(check.err, "") << spec;  // not even a warning
  return check.code == 0 ? nlohmann::json::parse(check.out) : nlohmann::json::object();
}

TEST(Init, FitsEveryTargetAndSaysWhy) {
  const Workplace place;
  write_text(place);
  for (const std::string target : {"cpu", "gtx1650ti", "rtx4070", "a100-40gb", "h100"}) {
    for (const std::string task : {"char", "language"}) {
      const std::string spec = task + "-" + target + ".yaml";
      const Outcome made =
          place.run({"init", "--for", target, "--task", task, "--data", "text.txt", "-o", spec});
      ASSERT_EQ(made.code, 0) << made.err;
      EXPECT_NE(made.out.find("wrote " + spec), std::string::npos) << made.out;
      const bool said_why = made.out.find("more than") != std::string::npos;
      EXPECT_TRUE(said_why || target == "cpu") << "why it is no larger model: " << made.out;
      const auto json = checked(place, spec);
      EXPECT_TRUE(json["memory"]["fits"].get<bool>());
      EXPECT_EQ(json["spec"]["target"], target);
      // The comment beside micro_batch_size is what the plan chooses.
      const int64_t micro = json["spec"]["train"]["micro_batch_size"].get<int64_t>();
      EXPECT_NE(slurp(place / spec).find("# " + std::to_string(micro) + " in memory at once"),
                std::string::npos);
      EXPECT_EQ(slurp(place / spec).find('@'), std::string::npos);
    }
  }
}

TEST(Init, TakesTheLargestModelThatDataAndMemoryCarry) {
  const Workplace place;
  std::string text;
  while (text.size() < 20'000'000)
    text += "a long text of which nobody needs to read more than the first line\n";
  spill(place / "large.txt", text);
  const Words words = {"init", "--task", "char", "--data", "large.txt", "--force"};
  ASSERT_EQ(place.run(with(words, {"--for", "gtx1650ti"})).code, 0);
  const auto json = checked(place, "char.yaml");
  EXPECT_EQ(json["spec"]["model"]["num_hidden_layers"], 12);
  EXPECT_EQ(json["spec"]["model"]["hidden_size"], 768);
  EXPECT_EQ(json["recompute"], "block") << "without it fewer sequences fit at once";
  EXPECT_GT(json["memory"]["arena_bytes"].get<double>(), 1e9);
}

TEST(Init, TrainsAsItIs) {
  const Workplace place;
  write_text(place);
  write_series(place);
  ASSERT_EQ(place.run({"init", "--for", "cpu", "--task", "char", "--data", "text.txt"}).code, 0);
  const Words short_run = {"train.max_steps=2", "train.lr_scheduler.warmup_steps=1",
                           "sample.max_new_tokens=4"};
  const Outcome text = place.run(with({"char.yaml"}, short_run));
  EXPECT_EQ(text.code, 0) << text.err;
  const Outcome made = place.run({"init", "--for", "cpu", "--task", "series", "--data", "days.csv",
                                  "--predict", "direction", "--classes", "3", "-o", "days.yaml"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("not read, because it is text: date"), std::string::npos) << made.out;
  const Outcome series =
      place.run(with({"days.yaml"}, {"train.max_steps=2", "train.lr_scheduler.warmup_steps=1"}));
  EXPECT_EQ(series.code, 0) << series.err;
}

TEST(Init, NamesNoHardwareWhereItIsForThisMachine) {
  const Workplace place;
  write_text(place);
  write_series(place);
  for (const auto& [task, data] : {std::pair("char", "text.txt"), {"series", "days.csv"}}) {
    const Outcome made = place.run({"init", "--task", task, "--data", data, "-o", "mine.yaml", "--force"});
    ASSERT_EQ(made.code, 0) << made.err;
    const std::string spec = slurp(place / "mine.yaml");
    EXPECT_NE(spec.find("\ntarget: auto\n"), std::string::npos) << spec;
    EXPECT_EQ(spec.find("precision:"), std::string::npos) << spec;
    EXPECT_EQ(place.run({"check", "mine.yaml"}).code, 0);
  }
}

TEST(Init, IsRelativeToTheSpecsFolder) {
  const Workplace place;
  write_text(place);
  fs::create_directory(place / "specs");
  ASSERT_EQ(place.run({"init", "--task", "char", "--data", "text.txt", "-o", "specs/mine.yaml"}).code, 0);
  EXPECT_NE(slurp(place / "specs/mine.yaml").find("path: [\"../text.txt\"]"), std::string::npos);
  const Outcome check = place.run({"check", "specs/mine.yaml"});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_EQ(check.err, "");
}

TEST(Init, NeverReplacesAFileUnasked) {
  const Workplace place;
  write_text(place);
  spill(place / "char.yaml", "mine\n");
  const Words words = {"init", "--for", "cpu", "--task", "char", "--data", "text.txt"};
  const Outcome refused = place.run(words);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "hydrac: error: char.yaml is there already; -o FILE names another, --force replaces it\n");
  EXPECT_EQ(slurp(place / "char.yaml"), "mine\n");
  EXPECT_EQ(place.run(with(words, {"--force"})).code, 0);
  EXPECT_NE(slurp(place / "char.yaml"), "mine\n");
}

TEST(Init, NeverReplacesWhatItReads) {
  const Workplace place;
  write_text(place);
  fs::create_symlink("text.txt", place / "link.txt");
  const std::string before = slurp(place / "text.txt");
  for (const char* file : {"text.txt", "./text.txt", "link.txt"}) {
    const Outcome refused =
        place.run({"init", "--for", "cpu", "--task", "char", "--data", "*.txt", "-o", file, "--force"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.err, std::string("hydrac: error: ") + file +
                               " is what --data names, and stays as it is; -o FILE names another\n");
  }
  EXPECT_EQ(slurp(place / "text.txt"), before);
  EXPECT_TRUE(fs::is_symlink(place / "link.txt"));
}

TEST(Init, SaysWhatIsWrong) {
  const Workplace place;
  write_text(place);
  write_series(place);
  const std::pair<Words, std::string> cases[] = {
      {{}, "--task is missing: What to train: char, language, series or finetune"},
      {{"--task", "char"}, "--data is missing"},
      {{"--task", "poems", "--data", "text.txt"}, "--task poems: it is char, language, series or finetune"},
      {{"--task", "finetune", "--data", "text.txt"},
       "--model is missing: The model: hf:OWNER/NAME, or a folder"},
      {{"--task", "finetune", "--data", "text.txt", "--model", "gone"}, "--model: there is no folder gone"},
      {{"--task", "finetune", "--data", "text.txt", "--model", "."}, "--model: . has no config.json"},
      {{"--task", "char", "--data", "text.txt", "--model", "."}, "--model is for --task finetune"},
      {{"--task", "char", "--data", "none.txt"}, "none.txt"},
      {{"--task", "char", "--data", "."}, "--data: . is a folder; name its files, as './*.txt'"},
      {{"--task", "char", "--data", "days.csv"}, "days.csv is a CSV file, and --task series reads it"},
      {{"--task", "series", "--data", "text.txt"}, "text.txt is no CSV file"},
      {{"--task", "series", "--data", "days.csv", "--predict", "closed"}, "did you mean close?"},
      {{"--task", "char", "--data", "text.txt", "--for", "RTX-4070"}, "did you mean rtx4070?"},
      {{"--task", "char", "--data", "text.txt", "--for", "sm_86"}, "its memory is not known"},
      {{"--task", "char", "--data", "text.txt", "--classes", "3"}, "--classes is for --task series"},
      {{"--task", "language", "--data", "text.txt", "--tokenizer", "none.json"}, "none.json"},
      {{"--task", "char", "--data", "text.txt", "-o", "gone/a.yaml"}, "gone/a.yaml: there is no folder gone"},
      {{"text.txt"}, "init takes options only; \"text.txt\" is none"},
      {{"--task", "char", "--data", "text.txt", "text.txt"},
       "init takes options only; \"text.txt\" is none; a pattern of files stands in quotes: --data "
       "'data/*.txt'"}};
  for (const auto& [words, said] : cases) {
    const Outcome outcome = place.run(with({"init"}, words));
    EXPECT_EQ(outcome.code, 2) << said;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << said << " in\n" << outcome.err;
  }
  EXPECT_FALSE(fs::exists(place / "char.yaml"));
}

// The example's model and conversations, from a spec in a folder of its own.
TEST(Init, FinetunesAModelThatIsThere) {
  const Workplace place;
  const std::string examples = test::source_dir() + "/examples/lora";
  fs::create_directories(place / "specs");
  fs::copy(examples + "/model", place / "model", fs::copy_options::recursive);
  fs::copy(examples + "/chat.jsonl", place / "chat.jsonl");
  const Words words = {"init",       "--task", "finetune", "--model", "model",           "--data",
                       "chat.jsonl", "--for",  "cpu",      "-o",      "specs/tuned.yaml"};
  const Outcome made = place.run(words);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("chat_template: llama3, by the tokenizer's special tokens"), std::string::npos)
      << made.out;
  const std::string spec = slurp(place / "specs/tuned.yaml");
  EXPECT_NE(spec.find("  from: \"../model\""), std::string::npos) << spec;
  EXPECT_NE(spec.find("  format: chat"), std::string::npos) << spec;
  checked(place, "specs/tuned.yaml");
  const Outcome run = place.run({"specs/tuned.yaml", "train.max_steps=3", "train.lr_scheduler.warmup_steps=1",
                                 "sample.max_new_tokens=4"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(fs::exists(place / "runs/tuned/checkpoint-3/adapter_model.safetensors"));
  // Without special tokens, conversations cannot be written; prompts and completions can.
  std::string tokenizer = slurp(place / "model/tokenizer.json");
  for (size_t at; (at = tokenizer.find("<|eot_id|>")) != std::string::npos;)
    tokenizer.replace(at, 10, "<|others|>");
  spill(place / "model/tokenizer.json", tokenizer);
  const Outcome refused = place.run(with(words, {"--force"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(
      refused.err.find("chat.jsonl has messages, and the tokenizer of model none of the special tokens"),
      std::string::npos)
      << refused.err;
  spill(place / "chat.jsonl", "{\"prompt\": \"one \", \"completion\": \"two\"}\n");
  EXPECT_EQ(place.run(with(words, {"--force"})).code, 0);
  EXPECT_EQ(slurp(place / "specs/tuned.yaml").find("chat_template"), std::string::npos);
}

// The first savings that fit: an 8 B model needs none on 80 GB, and 4-bit codes on 12.
TEST(Init, FinetunesALargeModelInWhatMemoryThereIs) {
  const Workplace place;
  fs::create_directories(place / "llama");
  spill(
      place / "llama/config.json",
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
            "max_position_embeddings": 8192, "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
            "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false})");
  spill(place / "llama/model.safetensors", "planned, not read");
  fs::copy(test::source_dir() + "/examples/lora/model/tokenizer.json", place / "llama/tokenizer.json");
  spill(place / "chat.jsonl", "{\"prompt\": \"one \", \"completion\": \"two\"}\n");
  const auto made_for = [&](const std::string& target) {
    const Outcome made = place.run({"init", "--task", "finetune", "--model", "llama", "--data", "chat.jsonl",
                                    "--for", target, "--force", "-o", "tuned.yaml"});
    EXPECT_EQ(made.code, 0) << made.err;
    return slurp(place / "tuned.yaml") + made.out;
  };
  const std::string large = made_for("h100"), small = made_for("rtx4070");
  EXPECT_NE(large.find("base: compute"), std::string::npos) << large;
  EXPECT_NE(small.find("base: nf4"), std::string::npos) << small;
  EXPECT_NE(small.find("not base: compute, recompute: block: "), std::string::npos) << small;
  EXPECT_NE(small.find(" needed"), std::string::npos) << small;
  const Outcome refused = place.run({"init", "--task", "finetune", "--model", "llama", "--data", "chat.jsonl",
                                     "--for", "gtx1650ti", "-o", "four.yaml"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("llama does not fit gtx1650ti, not even with 4-bit codes"), std::string::npos)
      << refused.err;
}

// The presets themselves, as bases of a spec.
TEST(Init, PresetsAreBasesOfSpecs) {
  const Workplace place;
  int count = 0;
  for (const auto& entry : fs::directory_iterator(test::source_dir() + "/specs/presets")) {
    const std::string name = entry.path().filename().string();
    const bool series = name.starts_with("series-");
    const std::string target = name.find("4gb") == std::string::npos || name.find("24gb") != std::string::npos
                                   ? name.find("cpu") != std::string::npos ? "cpu" : "h100"
                                   : "gtx1650ti";
    spill(place / "mine.yaml",
          "name: mine\nextends: " + entry.path().string() + "\ntarget: " + target +
              (series ? "\ndata: {path: days.csv, target: close, features: [open], val_fraction: 0.3}\n"
                      : "\ndata: {path: corpus.txt, val_fraction: 0.3}\n"));
    write_series(place);
    checked(place, "mine.yaml");
    ++count;
  }
  EXPECT_GE(count, 9);
}

}  // namespace
}  // namespace hydrac::e2e
