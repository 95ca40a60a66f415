// A program that samples replies and is rewarded for them, built ahead of time, trains exactly as hydrac
// itself does; also where an encoder embeds the replies.
#include <gtest/gtest.h>

#include <regex>

#include "tests/e2e/built/built_program.h"
#include "tests/e2e/pairs.h"
#include "tests/unit/support/bert_folder.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// Replies are sampled, scored, rewarded and trained on.
TEST(AheadOfTime, AnObjectiveOfSeveralRanksTrainsAsThatOfTheJit) {
  const Workplace place;
  spill_pairs(place);
  test::spill(
      place / "replies.yaml",
      "name: replies\ntarget: cpu\n"
      "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
      "intermediate_size: 64}\n"
      "adapter: {type: lora, r: 4, dropout: 0.1}\n"
      "objective: {name: grpo, prompts: 4, replies: 2, weight: 1, kl: 0.1, prompt_tokens: 16, "
      "max_new_tokens: 8, top_k: 40}\n"
      "data: {path: pairs.jsonl, format: chat, val_fraction: 0.1}\n"
      "train: {sequence_len: 48, micro_batch_size: 2, max_steps: 6, eval_steps: 0, log_steps: 1, "
      "optimizer: {learning_rate: 0.01}}\n"
      "parallel: {data: 2}\noptimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  test::spill(place / "reward.sh", "awk '{ print length($0); print length($0) % 7 }'\n");
  const std::string reward = "objective.reward.command=[sh, reward.sh]";
  const Outcome emitted = place.run({"emit", "replies.yaml", reward, "-o", "program", "-q"});
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  build_emitted(place, "program");
  ASSERT_EQ(place.run({"replies.yaml", reward, "output.dir=runs/jit", "-q"}).code, 0);
  const std::string train = "program/build/train --quiet --reward sh --reward reward.sh --output runs/";
  const Outcome run = shell(place.path(), train + "built --steps 3");
  ASSERT_EQ(run.code, 0) << run.out;
  const Outcome resumed = shell(place.path(), train + "built --resume");
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  expect_equal_runs(place / "runs/jit", place / "runs/built", "checkpoint-6", "adapter_model.safetensors");
  ASSERT_EQ(shell(place.path(), train + "mixed --steps 3").code, 0);
  const Outcome rest = place.run({"replies.yaml", reward, "output.dir=runs/mixed", "-q", "--resume"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  expect_equal_runs(place / "runs/jit", place / "runs/mixed", "checkpoint-6", "adapter_model.safetensors");
  const Outcome tested = shell(place.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_EQ(tested.code, 0) << tested.out;
}

// Of an encoder that embeds replies the program holds the function, and its folder the weights.
class BuiltEncoder : public testing::Test {
 protected:
  BuiltEncoder() {
    bert_.layers = 3;  // the model has 2
    bert_.draw(5);
    bert_.write(place_ / "bert");
    spill_pairs(place_);
    test::spill(
        place_ / "replies.yaml",
        "name: replies\ntarget: cpu\n"
        "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 64}\n"
        "adapter: {type: lora, r: 4}\n"
        "objective: {name: polychromic, prompts: 3, replies: 3, weight: 1, prompt_tokens: 16, "
        "max_new_tokens: 8, embed: bert}\n"
        "data: {path: pairs.jsonl, format: chat, val_fraction: 0.1}\n"
        "train: {sequence_len: 48, micro_batch_size: 2, max_steps: 6, eval_steps: 0, log_steps: 1, "
        "optimizer: {learning_rate: 0.01}}\n"
        "optimizations: {threads: 1}\nsample: {max_new_tokens: 0}\n");
  }

  void emit() const {
    const Outcome emitted = place_.run({"emit", "replies.yaml", "-o", "program", "-q"});
    ASSERT_EQ(emitted.code, 0) << emitted.err;
  }
  Outcome train(const std::string& options) const {
    return shell(place_.path(), "program/build/train --quiet " + options);
  }
  // Nothing is made.
  void refused(const std::string& options, const std::string& why) const {
    const Outcome outcome = train("--output runs/refused " + options);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_NE(outcome.out.find(why), std::string::npos) << outcome.out;
    EXPECT_FALSE(fs::exists(place_ / "runs/refused"));
  }

  const Workplace place_;
  test::BertFolder bert_;
};

TEST_F(BuiltEncoder, ReadsLikeTheRestOfTheProgram) {
  emit();
  const auto expect_lines = [&](const char* file, const std::vector<const char*>& lines) {
    const std::string text = slurp(place_ / "program" / file);
    for (const char* line : lines) EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  };
  expect_lines("embed.cpp",
               {"for (int l = 0; l < kTextLayers; ++l) encoder(m, run, l);", "text_encoder.qkv_weight[l]"});
  expect_lines("dims.h", {"kTextLayers = 3;", "Textwidth = 48;"});
  expect_lines("memory.h", {"struct TextEncoder {", "Slots<float> qkv_weight ="});
  expect_lines("layout.cpp",
               {"\"encoder.layer.{}.attention.self.key.weight\"", "{.offset = Textwidth * Textwidth}"});
  expect_lines("settings.cpp",
               {"encoder.folder = \"bert\";", "{\"config.json\", \"num_attention_heads\", \"3\"},"});
}

TEST_F(BuiltEncoder, TrainsAsThatOfTheJitWhereverItsFolderIs) {
  emit();
  build_emitted(place_, "program");
  ASSERT_EQ(place_.run({"replies.yaml", "output.dir=runs/jit", "-q"}).code, 0);
  for (const char* part : {"mixed", "parts"})
    ASSERT_EQ(train(std::string("--steps 3 --output runs/") + part).code, 0);
  ASSERT_EQ(train("--output runs/built").code, 0);
  expect_equal_runs(place_ / "runs/jit", place_ / "runs/built", "checkpoint-6", "adapter_model.safetensors");
  fs::rename(place_ / "bert", place_ / "moved");
  const Outcome rest = train("--output runs/parts --embed moved --resume");
  ASSERT_EQ(rest.code, 0) << rest.out;
  const Outcome by_jit =
      place_.run({"replies.yaml", "output.dir=runs/mixed", "objective.embed=moved", "-q", "--resume"});
  ASSERT_EQ(by_jit.code, 0) << by_jit.err;
  for (const char* part : {"mixed", "parts"})
    expect_equal_runs(place_ / "runs/jit", place_ / "runs" / part, "checkpoint-6",
                      "adapter_model.safetensors");
  const Outcome tested = shell(place_.path(), "ctest --test-dir program/build --output-on-failure");
  EXPECT_EQ(tested.code, 0) << tested.out;

  refused("", "there is no folder bert, in which the encoder of replies would be");
  const std::string config = slurp(place_ / "moved/config.json");
  test::spill(place_ / "moved/config.json", std::regex_replace(config, std::regex("\"gelu\""), "\"silu\""));
  refused("--embed moved",
          "moved/config.json: hidden_act is \"silu\" here, and \"gelu\" in the encoder that the program was "
          "made for");
  test::spill(place_ / "moved/config.json", config);
  test::spill(place_ / "moved/sentence_bert_config.json", R"({"max_seq_length": 12})");
  refused("--embed moved", "moved/sentence_bert_config.json: max_seq_length is 12 here, and nothing in");
  fs::remove(place_ / "moved/sentence_bert_config.json");
  test::spill(place_ / "moved/vocab.txt", slurp(place_ / "moved/vocab.txt") + "more\n");
  refused("--embed moved", "moved: the tokenizer has the id ");
  fs::remove(place_ / "moved/vocab.txt");
  refused("--embed moved", "moved: there is neither tokenizer.json nor vocab.txt");
  bert_.write(place_ / "moved");
  bert_.tensors.erase("encoder.layer.2.output.dense.weight");
  bert_.write_weights(place_ / "moved");
  refused("--embed moved", "moved: these are not the weights of its config.json:");
}

}  // namespace
}  // namespace hydrac::e2e
