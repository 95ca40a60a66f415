// Fine-tuning: runs that begin with a model's folder.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/checkpoint/tensor_io.h"
#include "runtime/log/units.h"
#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

using runtime::SafetensorsReader;
using runtime::TensorToWrite;
using test::slurp;
using test::spill;

// The checkpoint of a tiny model in Llama's form, and a spec that goes on from a folder `model` without
// changing the weights: its checkpoint must hold what it began with.
class FineTuning : public testing::Test {
 protected:
  FineTuning() {
    const Outcome trained = place_.run({"-q", "base.yaml", "train.max_steps=2", "train.eval_steps=0"});
    EXPECT_EQ(trained.code, 0) << trained.err;
    fs::create_directory(place_ / "model");
    for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"})
      fs::copy_file(source_ / name, place_ / "model" / name);
    spill(place_ / "tuned.yaml",
          "name: tuned\ntarget: cpu\nmodel: {from: model}\ndata: {path: corpus.txt, val_fraction: 0}\n"
          "train: {sequence_len: 16, micro_batch_size: 2, max_steps: 1, optimizer: {learning_rate: 0}}\n"
          "optimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  }

  // Model.safetensors anew, of those of the checkpoint's tensors that `keep` wants, under the names that it
  // gives them.
  void write(const std::string& name, const std::function<std::string(const std::string&)>& keep,
             std::vector<TensorToWrite> more = {}) {
    const SafetensorsReader reader(source_ / "model.safetensors");
    for (const runtime::TensorEntry& tensor : reader.tensors()) {
      const std::string as = keep(tensor.name);
      if (!as.empty())
        more.push_back(
            runtime::raw_tensor_to_write(as, tensor.dtype, tensor.shape, reader.bytes(tensor).data()));
    }
    runtime::FileWriter file(place_ / "model" / name);
    runtime::write_safetensors(file, std::move(more));
    file.close_durably();
  }

  Outcome tune(const Words& more = {}) { return place_.run(with({"tuned.yaml"}, more)); }

  std::string weights_after() { return slurp(place_ / "runs/tuned/checkpoint-1/model.safetensors"); }

  const Workplace place_;
  const fs::path source_ = place_ / "runs/base/checkpoint-2";
  const std::string weights_ = "model/model.safetensors";
};

const std::string kEmbedding = "model.embed_tokens.weight";

TEST_F(FineTuning, BeginsWithTheWeightsAndTokenizerOfAFolder) {
  const Outcome tuned = tune();
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.out.find("weights of model: 20 tensors of F32 in 1 file\n"), std::string::npos)
      << tuned.out;
  EXPECT_EQ(weights_after(), slurp(source_ / "model.safetensors"));
  const std::string resolved = slurp(place_ / "runs/tuned/spec.yaml");
  EXPECT_NE(resolved.find("  weights: \"../../model\"\n"), std::string::npos) << resolved;
  EXPECT_NE(resolved.find("  tokenizer: \"../../model/tokenizer.json\"\n"), std::string::npos) << resolved;
  // The resolved spec is the same run.
  ASSERT_EQ(place_.run({"-q", "runs/tuned/spec.yaml", "output.dir=runs/again"}).code, 0);
  EXPECT_EQ(slurp(place_ / "runs/again/checkpoint-1/model.safetensors"), weights_after());
  // Random weights are others.
  const Outcome random = tune({"-q", "model.weights=none"});
  ASSERT_EQ(random.code, 0) << random.err;
  EXPECT_NE(weights_after(), slurp(source_ / "model.safetensors"));
}

TEST_F(FineTuning, ReadsPartsWithoutPrefixAndATiedHead) {
  const SafetensorsReader reader(source_ / "model.safetensors");
  const runtime::TensorEntry& embedding = reader.at(kEmbedding);
  nlohmann::json map;
  const auto named = [&](bool first, const std::string& file) {
    return [&, first, file](const std::string& name) -> std::string {
      const bool in_first = name.find("layers.0") != std::string::npos;
      if (in_first != first) return "";
      map[name.substr(6)] = file;
      return name.substr(6);
    };
  };
  write("part-1.safetensors", named(true, "part-1.safetensors"));
  write("part-2.safetensors", named(false, "part-2.safetensors"),
        {runtime::raw_tensor_to_write("lm_head.weight", embedding.dtype, embedding.shape,
                                      reader.bytes(embedding).data())});
  fs::remove(place_ / weights_);
  spill(place_ / "model/model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  const Outcome tuned = tune();
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.out.find("weights of model: 21 tensors of F32 in 2 files\n"), std::string::npos)
      << tuned.out;
  EXPECT_EQ(weights_after(), slurp(source_ / "model.safetensors"));
}

TEST_F(FineTuning, RefusesNumbersThatAreNone) {
  const auto with_embedding = [&](float number) {
    const SafetensorsReader reader(source_ / "model.safetensors");
    const runtime::TensorEntry& tensor = reader.at(kEmbedding);
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    runtime::read_tensor(reader, {kEmbedding, tensor.shape, values.data()});
    values[7 * 64 + 3] = number;
    write("model.safetensors", [](const std::string& name) { return name == kEmbedding ? "" : name; },
          {runtime::raw_tensor_to_write(kEmbedding, tensor.dtype, tensor.shape, values.data())});
  };
  const Words logits = {"sample", "model", "--logits", "--prompt", "line", "--threads", "1"};
  with_embedding(NAN);
  const std::string why =
      "hydrac: error: model/model.safetensors: tensor \"model.embed_tokens.weight\" is NaN at [7, 3]; the "
      "file "
      "is damaged, or its training diverged\n";
  for (const Outcome& refused : {tune(), place_.run(logits)}) {
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
  }
  EXPECT_FALSE(fs::exists(place_ / "runs/tuned/checkpoint-1"));
  with_embedding(-3e38f);  // a number, whose products are none
  const Outcome overflowed = place_.run(logits);
  EXPECT_EQ(overflowed.code, 3);
  EXPECT_EQ(overflowed.out, "");
  EXPECT_NE(overflowed.err.find("the logit of token "), std::string::npos) << overflowed.err;
}

TEST_F(FineTuning, TakesATokenizerWithMoreTokensThanTheModel) {
  const fs::path file = place_ / "model/tokenizer.json";
  auto tokenizer = nlohmann::json::parse(slurp(file));
  tokenizer["added_tokens"].push_back({{"id", 256}, {"content", "[PAD]"}, {"special", true}});
  spill(file, tokenizer.dump());
  const Outcome tuned = tune();
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(weights_after(), slurp(source_ / "model.safetensors"));
  spill(place_ / "padded.jsonl", "{\"text\": \"a text\"}\n{\"text\": \"another[PAD]\"}\n");
  const std::string why = "\"[PAD]\" is token 256, and the model has embeddings of tokens 0 to 255 alone: ";
  for (const Outcome& refused :
       {tune({"data.path=padded.jsonl"}), place_.run({"sample", "model", "--prompt", "[PAD]"})}) {
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
  }
  EXPECT_NE(tune({"data.path=padded.jsonl"}).err.find("padded.jsonl:2: " + why), std::string::npos);
  // Rows that no weights fix follow the tokenizer.
  const Outcome random = tune({"model.weights=none"});
  EXPECT_EQ(random.code, 2);
  EXPECT_NE(random.err.find("vocab_size is 256, and the tokenizer model/tokenizer.json has 257 tokens"),
            std::string::npos)
      << random.err;
}

TEST_F(FineTuning, RefusesWeightsOfAnotherModelByName) {
  const std::string begin = "hydrac: error: model: these are not the weights of the model:";
  const Outcome wider = tune({"model.intermediate_size=192"});
  EXPECT_EQ(wider.code, 2);
  EXPECT_EQ(wider.err,
            begin +
                "\n  of another shape or type: "
                "\"model.layers.0.mlp.gate_proj.weight\" is [128, 64] in the file and [192, 64] in "
                "the model, "
                "\"model.layers.1.mlp.gate_proj.weight\" is [128, 64] in the file and [192, 64] in "
                "the model, "
                "\"model.layers.0.mlp.up_proj.weight\" is [128, 64] in the file and [192, 64] in the "
                "model, "
                "\"model.layers.1.mlp.up_proj.weight\" is [128, 64] in the file and [192, 64] in the "
                "model, "
                "\"model.layers.0.mlp.down_proj.weight\" is [64, 128] in the file and [64, 192] in "
                "the model and 1 more\n");
  const Outcome untied = tune({"model.tie_word_embeddings=false"});
  EXPECT_EQ(untied.code, 2);
  EXPECT_EQ(untied.err, begin +
                            "\n  missing: \"lm_head.weight\"\n"
                            "with model.tie_word_embeddings: true, the head is the token embedding\n");
  const std::vector<float> zeros(256 * 64);
  write("model.safetensors", [](const std::string& name) { return name; },
        {runtime::raw_tensor_to_write("lm_head.weight", runtime::SafetensorsDtype::f32, {256, 64},
                                      zeros.data())});
  const Outcome other_head = tune();
  EXPECT_EQ(other_head.code, 2);
  EXPECT_EQ(other_head.err,
            begin +
                "\n  not of this model: \"lm_head.weight\"\nthe head is not the token embedding "
                "in this file: model.tie_word_embeddings is false there\n");
  fs::resize_file(place_ / weights_, 1000);
  const Outcome truncated = tune();
  EXPECT_EQ(truncated.code, 2);
  EXPECT_NE(truncated.err.find("hydrac: error: model/model.safetensors: "), std::string::npos)
      << truncated.err;
  EXPECT_FALSE(fs::exists(place_ / "runs/tuned/metrics.jsonl"));
}

TEST_F(FineTuning, IsVerifiedWithTheWeightsItBeginsWith) {
  if (!fs::exists(fs::path(HYDRAC_BUILT_PROGRAM).parent_path() / "hydrac-oracle"))
    GTEST_SKIP() << "no hydrac-oracle: nothing was compared with LibTorch";
  const Outcome verified =
      place_.run({"verify", "tuned.yaml", "train.optimizer.learning_rate=0.001", "--keep", "job"});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  const SafetensorsReader job(place_ / "job/tensors.safetensors"), model(source_ / "model.safetensors");
  const auto ours = job.bytes(job.at("token_embedding.0")), theirs = model.bytes(model.at(kEmbedding));
  EXPECT_TRUE(std::ranges::equal(ours, theirs)) << "verified with other weights";
}

TEST_F(FineTuning, ExportsTheModelAlone) {
  ASSERT_EQ(place_.run({"export", "runs/base", "-o", "out/"}).code, 0);
  EXPECT_EQ(files_below(place_ / "out"), (Words{"config.json", "generation_config.json", "model.safetensors",
                                                "tokenizer.json", "tokenizer_config.json"}));
  for (const std::string& name : files_below(place_ / "out")) {
    if (name == "config.json") continue;
    EXPECT_EQ(slurp(place_ / "out" / name), slurp(source_ / name)) << name;
  }
  const auto config = [](const fs::path& folder) {
    return nlohmann::json::parse(slurp(folder / "config.json"));
  };
  EXPECT_EQ(config(place_ / "out"), config(source_));

  const Outcome narrow = place_.run({"export", "runs/base/checkpoint-2", "--dtype", "bf16", "-o", "narrow"});
  ASSERT_EQ(narrow.code, 0) << narrow.err;
  EXPECT_EQ(narrow.out,
            "narrow: " + runtime::human_bytes(fs::file_size(place_ / "narrow/model.safetensors")) +
                " of weights in bfloat16, of " + fs::canonical(source_).string() + "\n");
  EXPECT_EQ(config(place_ / "narrow")["torch_dtype"], "bfloat16");
  const SafetensorsReader wide(source_ / "model.safetensors"), rounded(place_ / "narrow/model.safetensors");
  ASSERT_EQ(rounded.tensors().size(), wide.tensors().size());
  const runtime::TensorEntry &before = wide.at(kEmbedding), &after = rounded.at(kEmbedding);
  EXPECT_EQ(after.dtype, runtime::SafetensorsDtype::bf16);
  std::vector<float> values(static_cast<size_t>(before.elements()));
  runtime::read_tensor(wide, {kEmbedding, before.shape, values.data()});
  std::vector<std::byte> expected(2 * values.size());
  runtime::encode_floats(values, after.dtype, expected.data());
  EXPECT_TRUE(std::ranges::equal(rounded.bytes(after), expected));
}

TEST_F(FineTuning, ExportsNothingThatCannotBeUsed) {
  const auto refused = [&](const Words& words, const std::string& why, int code = 2) {
    const Outcome outcome = place_.run(with({"export"}, words));
    EXPECT_EQ(outcome.code, code) << why;
    EXPECT_EQ(outcome.err, "hydrac: " + why + "\n");
    EXPECT_FALSE(fs::exists(place_ / "out"));
  };
  refused({}, "error: which run? Give its folder");
  refused({"runs/base"}, "error: where to? Give -o FOLDER");
  refused({"runs/base", "-o", "model"},
          "error: model exists, and export overwrites nothing: name another folder");
  refused({"runs/base", "-o", "out", "--dtype", "int8"},
          "error: --dtype takes fp32, bf16 or fp16, not \"int8\"");
  refused({"runs/base", "more", "-o", "out"}, "error: \"more\" is one argument too many");
  refused({"runs/base", "model.from=model", "-o", "out"},
          "error: \"model.from=model\" is one argument too many: export takes a run as it was trained");
  const Outcome own = place_.run({"-q", "base.yaml", "model.position=none", "train.max_steps=2", "name=own"});
  ASSERT_EQ(own.code, 0) << own.err;
  const std::string run = fs::canonical(place_ / "runs/own").string();
  refused({"runs/own", "-o", "out"},
          "error: runs/own/checkpoint-2: transformers has no name for this model; "
          "`hydrac check runs/own/spec.yaml` says why");
}

// A chat model's template and special tokens are not lost on the way.
TEST_F(FineTuning, KeepsWhatStandsBesideTheTokenizer) {
  const std::string config =
      R"({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": "{{ messages }}"})";
  spill(place_ / "model/tokenizer_config.json", config);
  spill(place_ / "model/generation_config.json", R"({"eos_token_id": [0, 1]})");
  ASSERT_EQ(tune({"-q"}).code, 0);
  EXPECT_EQ(slurp(place_ / "runs/tuned/checkpoint-1/tokenizer_config.json"), config);
  ASSERT_EQ(place_.run({"export", "-q", "runs/tuned", "-o", "out"}).code, 0);
  EXPECT_EQ(slurp(place_ / "out/tokenizer_config.json"), config);
  EXPECT_EQ(slurp(place_ / "out/generation_config.json"), R"({"eos_token_id": [0, 1]})");
}

TEST_F(FineTuning, SamplesFromTheFolder) {
  const auto logits = [&](const Words& words) {
    const Outcome outcome =
        place_.run(with({"sample", "--threads", "1", "--logits", "--prompt", "line 1"}, words));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json ours = logits({"model"}), of_run = logits({"runs/base"});
  EXPECT_EQ(ours["tokens"], of_run["tokens"]);
  ASSERT_EQ(ours["logits"].size(), of_run["logits"].size());
  for (size_t i = 0; i < ours["logits"].size(); ++i)
    EXPECT_NEAR(ours["logits"][i], of_run["logits"][i], 1e-5) << i;
  // With context for more than the run had, and not more than the model has.
  const Outcome longer =
      place_.run({"sample", "model", "--prompt", "line", "--max-new-tokens", "30", "--threads", "1"});
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_TRUE(longer.out.starts_with("line")) << longer.out;
  fs::remove(place_ / "model/tokenizer.json");
  const Outcome without = place_.run({"sample", "model"});
  EXPECT_EQ(without.code, 2);
  EXPECT_NE(without.err.find("model has no tokenizer.json"), std::string::npos) << without.err;
}

// A model of a tokenizer with ChatML's tokens, and a few conversations.
class Chat : public testing::Test {
 protected:
  Chat() {
    std::string lines;
    for (int i = 0; i < 12; ++i) {
      const nlohmann::json messages = {{{"role", "user"}, {"content", fmt::format("What is {}?", i)}},
                                       {{"role", "assistant"}, {"content", fmt::format("It is {}.", i + 1)}}};
      lines += nlohmann::json{{"messages", messages}}.dump() + "\n";
    }
    spill(place_ / "chat.jsonl", lines + R"({"prompt": "a b", "completion": " c d"})" + "\n");
    spill(place_ / "chat.yaml",
          "name: chat\ntarget: cpu\n"
          "model: {hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 4, intermediate_size: 64}\n"
          "data: {path: chat.jsonl, format: chat, chat_template: chatml, val_fraction: 0.1, shuffle: false, "
          "tokenizer: " +
              test::source_dir() +
              "/tests/unit/data/files/qwen2.tokenizer.json}\n"
              "train: {sequence_len: 96, micro_batch_size: 2, max_steps: 12, eval_steps: 12, log_steps: 1, "
              "optimizer: {learning_rate: 0.01}}\n"
              "optimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  }
  const Workplace place_;
};

TEST_F(Chat, LearnsReplies) {
  const Outcome outcome = place_.run({"chat.yaml"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("11 items in 4 sequences, "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("; 2 items validate\n"), std::string::npos) << outcome.out;
  std::istringstream lines(slurp(place_ / "runs/chat/metrics.jsonl"));
  std::vector<double> losses;
  for (std::string line; std::getline(lines, line);) losses.push_back(nlohmann::json::parse(line)["loss"]);
  ASSERT_EQ(losses.size(), 12u);
  EXPECT_LT(losses.back(), 0.6 * losses.front());
  // The same again from the cache.
  const std::string metrics = without_timing(slurp(place_ / "runs/chat/metrics.jsonl"));
  ASSERT_EQ(place_.run({"-q", "chat.yaml", "output.dir=again"}).code, 0);
  EXPECT_EQ(without_timing(slurp(place_ / "again/metrics.jsonl")), metrics);
  // What an emitted program is told about its data.
  ASSERT_EQ(place_.run({"emit", "-q", "chat.yaml", "-o", "emitted"}).code, 0);
  EXPECT_NE(
      slurp(place_ / "emitted/settings.cpp").find("data.items = true;\n  data.chat_template = \"chatml\";\n"),
      std::string::npos);
}

TEST_F(Chat, IsShownAsItIsLearned) {
  const Outcome shown = place_.run({"data", "show", "-q", "chat.yaml", "-n", "2"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const std::string first = R"(sequence 1: 21 of 96 positions learned, 3 documents
--- document 1
<|im_start|>user
What is 0?<|im_end|>
<|im_start|>assistant
«It is 1.<|im_end|>»
--- document 2
)";
  EXPECT_EQ(shown.out.substr(0, first.size()), first) << shown.out;
  const Outcome tokens =
      place_.run({"data", "show", "-q", "chat.yaml", "--tokens", "data.chat_template=qwen"});
  ASSERT_EQ(tokens.code, 0) << tokens.err;
  EXPECT_NE(tokens.out.find("     0     701 0 \"<|im_start|>\"\n"), std::string::npos) << tokens.out;
  EXPECT_NE(tokens.out.find(" 702 1 \"<|im_end|>\"\n"), std::string::npos) << tokens.out;
}

TEST_F(Chat, IsRefusedWithItsPlace) {
  const auto refused = [&](const Words& words, const std::string& why) {
    const Outcome outcome = place_.run(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "hydrac: error: " + why + "\n");
  };
  refused({"chat.yaml", "data.chat_template=none"},
          "chat.jsonl:1: \"messages\" need a chat template, and data.chat_template is none: own runs the one "
          "beside data.tokenizer, "
          "if there is one, chatml, llama3, mistral and qwen are hydrac's, and data.chat_template_jinja "
          "names a file");
  refused({"chat.yaml", "data.chat_template=llama3"},
          "data.chat_template: llama3 is made of <|begin_of_text|>, which is no token of the tokenizer");
  refused({"-q", "chat.yaml", "data.format=auto"},
          "chat.jsonl:1: the object has no \"text\" but \"messages\": data.text_key says which field is the "
          "text, and "
          "data.format: chat reads messages, and prompt with completion");
  refused({"data"}, "data takes prepare or show: `hydrac data --help` says what they do");
  refused({"data", "show", "chat.yaml", "-n", "0"}, "-n takes a number of at least 1");
}

// generate() of transformers reads this, and so does `hydrac sample`.
TEST_F(Chat, CheckpointsDeclareTheTurnsEnd) {
  ASSERT_EQ(place_.run({"-q", "chat.yaml", "train.max_steps=1", "train.eval_steps=0"}).code, 0);
  ASSERT_EQ(place_.run({"export", "-q", "runs/chat", "-o", "out"}).code, 0);
  for (const char* folder : {"runs/chat/checkpoint-1", "out"}) {
    const auto config = nlohmann::json::parse(slurp(place_ / folder / "generation_config.json"));
    EXPECT_EQ(config["eos_token_id"], nlohmann::json({700, 702})) << folder;
  }
}

class OwnTemplate : public Chat {
 protected:
  OwnTemplate() {
    std::string spec = slurp(place_ / "chat.yaml");
    const std::string key = "chat_template: chatml, ";
    spill(place_ / "own.yaml", spec.erase(spec.find(key), key.size()));
    fs::create_directory(place_ / "model");
    fs::copy_file(fs::path(test::source_dir()) / "tests/unit/data/files/qwen2.tokenizer.json",
                  place_ / "model/tokenizer.json");
  }
  void write_template(const std::string& text) const { spill(place_ / "model/chat_template.jinja", text); }

  const std::string turn_ =
      "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n'}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  const Words show_ = {"data", "show", "own.yaml", "data.tokenizer=model/tokenizer.json"};
};

TEST_F(OwnTemplate, IsTheDefaultAndNeedsNoPythonWhereItIsKnown) {
  write_template("{% for message in messages %}" + turn_);
  const std::string note = "note: data.chat_template is own: model/chat_template.jinja\n";
  for (const bool is_known : {true, false}) {
    if (!is_known) write_template("Hello{% for message in messages %}" + turn_);
    const Outcome shown = place_.run(show_);
    ASSERT_EQ(shown.code, 0) << shown.err;
    EXPECT_EQ(shown.err, note);
    EXPECT_NE(shown.out.find("<|im_start|>assistant\n«It is 1.<|im_end|>»"), std::string::npos) << shown.out;
    EXPECT_EQ(shown.out.find("Hello") == std::string::npos, is_known) << shown.out;
    fs::remove_all(place_ / ".cache");
    const Outcome without = place_.run(show_, {{"HYDRAC_PYTHON", "/nowhere/python3"}});
    EXPECT_EQ(without.code, is_known ? 0 : 2) << without.err;
    EXPECT_EQ(without.err.find("apt-get install python3-jinja2") == std::string::npos, is_known)
        << without.err;
  }
}

TEST_F(OwnTemplate, IsKeptByCheckpointsAndEndsReplies) {
  spill(place_ / "mine.jinja", "Hello{% for message in messages %}" + turn_);
  const Words words = {"-q",
                       "own.yaml",
                       "data.tokenizer=model/tokenizer.json",
                       "data.chat_template_jinja=mine.jinja",
                       "train.max_steps=1",
                       "train.eval_steps=0"};
  const Outcome trained = place_.run(words);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(slurp(place_ / "runs/chat/checkpoint-1/chat_template.jinja"), slurp(place_ / "mine.jinja"));
  const auto config = nlohmann::json::parse(slurp(place_ / "runs/chat/checkpoint-1/generation_config.json"));
  EXPECT_EQ(config["eos_token_id"], nlohmann::json({700, 702}));
  const Outcome logits =
      place_.run({"sample", "runs/chat", "--chat", "--prompt", "a", "--logits", "--threads", "1"});
  ASSERT_EQ(logits.code, 0) << logits.err;
  const Outcome as_text = place_.run({"sample", "runs/chat", "--logits", "--threads", "1", "--prompt",
                                      "Hello<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"});
  EXPECT_EQ(logits.out, as_text.out);
  ASSERT_EQ(place_
                .run(with({"emit"}, {"-q", "own.yaml", "data.tokenizer=model/tokenizer.json",
                                     "data.chat_template_jinja=mine.jinja", "-o", "emitted"}))
                .code,
            0);
  EXPECT_NE(slurp(place_ / "emitted/settings.cpp").find("data.chat_template_jinja = \"mine.jinja\";\n"),
            std::string::npos);
}

TEST_F(OwnTemplate, RefusesRowsWithTheirPlace) {
  const auto refused = [&](const std::string& text, const std::string& why) {
    write_template(text);
    const Outcome outcome = place_.run(with(show_, {"-q"}));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "hydrac: error: " + why + "\n");
  };
  refused(
      "Hello{% for message in messages %}\n{% if message.content == 'What is 3?' %}{{ raise_exception('No "
      "threes') }}{% endif %}" +
          turn_,
      "chat.jsonl:4: the template says: No threes");
  refused("\n{% for message in messages %}",
          "model/chat_template.jinja:2: Unexpected end of template. Jinja was looking for the following "
          "tags: 'endfor' or 'else'. The innermost block that needs to be closed is 'for'.");
  spill(
      place_ / "chat.jsonl",
      R"({"messages": [{"role": "user", "content": "a"}], "conversations": [{"from": "gpt", "value": "b"}]})"
      "\n");
  refused("{% for message in messages %}" + turn_,
          "chat.jsonl:1: this reads as messages and as conversations: data.fields: {messages: messages} "
          "chooses the first");
}

}  // namespace
}  // namespace hydrac::e2e
