// `hydrac check` says no to what a run refuses, in the run's words, and the answer first.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

// The refusal of a run and a check of the same words, which is the same one.
std::string refusal(const Workplace& place, const Words& words) {
  const Outcome check = place.run(with({"check", "base.yaml"}, words));
  const Outcome run = place.run(with({"run", "base.yaml"}, words));
  EXPECT_EQ(check.code, 2) << check.out;
  EXPECT_EQ(run.code, 2) << run.out;
  EXPECT_EQ(check.err, run.err);
  EXPECT_FALSE(fs::exists(place / "runs"));
  return check.err;
}

TEST(Check, SaysNoToDataThatARunRefuses) {
  const Workplace place;
  spill(place / "tiny.txt", "too little\n");
  spill(place / "chat.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})"
                              "\n");
  spill(place / "long.jsonl",
        fmt::format("{{\"prompt\": \"{}\", \"completion\": \"b\"}}\n", std::string(900, 'a')));
  spill(place / "cut.bin", "no shard");
  const std::pair<Words, const char*> cases[] = {
      {{"data.path=nowhere.txt"}, "nowhere.txt: there is no such file"},
      {{"data.path=owner/name"}, "  help: a dataset of Hugging Face's hub is written hf:OWNER/NAME"},
      {{"data.path=tiny.txt"}, "has 9 tokens, but a sequence of 16 needs 17"},
      {{"data.path=chat.jsonl"}, "chat.jsonl:1: the object has no \"text\""},
      {{"data.path=chat.jsonl", "data.format=chat"}, "\"messages\" need a template"},
      {{"data.path=long.jsonl", "data.format=chat", "data.val_fraction=0"},
       "of 1 items to train on none is left"},
      {{"data.path=cut.bin"}, "cut.bin: not a token file"},
      {{"data.val_path=tiny.txt"}, "data.val_path has 11 tokens, but a sequence of 16"},
      {{"train.sequence_len=4096"}, "validate, but a sequence of 4096"},
  };
  for (const auto& [words, said] : cases)
    EXPECT_NE(refusal(place, words).find(said), std::string::npos) << refusal(place, words);
}

TEST(Check, SaysNoToAVocabularyThatIsSmallerThanTheTokenizers) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "train.max_steps=2", "output.dir=first"}).code, 0);
  fs::rename(place / "first/checkpoint-2/tokenizer.json", place / "t.json");
  const Words words = {"data.tokenizer=t.json", "model.vocab_size=100"};
  EXPECT_EQ(refusal(place, words),
            "<command line>:1:40: error: vocab_size is 100, and the tokenizer t.json has 256 tokens "
            "[vocab-too-small]\n"
            "  data.tokenizer=t.json model.vocab_size=100\n"
            "                                         ^\n"
            "  help: remove it, or write 256 or more\n");
}

TEST(Check, SaysNoToWeightsThatARunRefuses) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "train.max_steps=2", "output.dir=first"}).code, 0);
  const std::string weights = "model.weights=first/checkpoint-2";
  EXPECT_EQ(place.run({"check", "base.yaml", weights}).code, 0);
  EXPECT_NE(
      refusal(place, {weights, "model.num_hidden_layers=3"}).find("these are not the weights of the model"),
      std::string::npos);
  fs::resize_file(place / "first/checkpoint-2/model.safetensors", 1000);
  EXPECT_NE(refusal(place, {weights}).find("model.safetensors"), std::string::npos);
}

TEST(Check, SaysNoToARewardCommandThatAFileNames) {
  const Workplace place;
  spill(place / "grpo.yaml",
        "extends: base.yaml\nobjective: {name: grpo, max_new_tokens: 4, reward: {command: "
        "./reward.py}}\ndata: {format: chat}\n");
  const Outcome check = place.run({"check", "grpo.yaml"});
  EXPECT_EQ(check.code, 2);
  EXPECT_NE(check.err.find("a file cannot name a program that is run"), std::string::npos) << check.err;
  EXPECT_EQ(check.out, "");
}

// A file larger than what is looked at, whose end is no text: only a run comes so far.
TEST(Check, DoesNotTokenizeAllOfLargeData) {
  const Workplace place;
  std::string text;
  while (text.size() < (size_t{4} << 20)) text += "{\"text\": \"a line of a corpus that is long enough\"}\n";
  spill(place / "large.jsonl", text + "{\"text\": 3}\n");
  const Outcome check = place.run({"check", "base.yaml", "data.path=large.jsonl"});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_NE(check.out.find("MiB in 1 data file: at least "), std::string::npos) << check.out;
  EXPECT_FALSE(fs::exists(place / ".cache"));
  EXPECT_EQ(place.run({"base.yaml", "data.path=large.jsonl"}).code, 2);
}

// Another machine's data is not here.
TEST(Check, PlansForAnotherMachineWithoutItsData) {
  const Workplace place;
  const Outcome check =
      place.run({"check", "base.yaml", "data.path=nowhere.txt", "target=h100", "model.head_dim=64"});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_NE(check.out.find("the data is not here, and was not looked at\n"), std::string::npos) << check.out;
}

TEST(Check, AnswersOnOneScreenAndBeginsWithTheAnswer) {
  const Workplace place;
  const Outcome check = place.run({"check", "base.yaml"});
  ASSERT_EQ(check.code, 0) << check.err;
  EXPECT_EQ(check.out.find("base fits: it needs "), 0u) << check.out;
  EXPECT_LE(std::ranges::count(check.out, '\n'), 24) << check.out;
  EXPECT_NE(check.out.find("\n12 steps of 64 tokens: 2 sequences of 16, 2 times\n"), std::string::npos)
      << check.out;
  const Outcome gpu =
      place.run({"check", "base.yaml", "target=h100", "model.head_dim=64", "data.path=nowhere.txt"});
  EXPECT_TRUE(std::regex_search(
      gpu.out, std::regex("\npredicted: [0-9.e-]+ ms a step, [0-9.]+[kM]? tokens/s, 0:00 for 12 steps\n")))
      << gpu.out;
  const Outcome less = place.run({"check", "base.yaml", "--memory", "0.001"});
  EXPECT_EQ(less.code, 2);
  EXPECT_EQ(less.out.find("base does not fit: it needs "), 0u) << less.out;
}

TEST(Check, WritesItsOutputBeforeItsErrorsIntoOneFile) {
  const Workplace place;
  const std::string command = fmt::format("cd {} && {} check -v base.yaml --memory 0.001 > both 2>&1",
                                          place.path().string(), hydrac_program());
  EXPECT_NE(std::system(command.c_str()), 0);
  const std::string both = slurp(place / "both");
  const size_t spec = both.find("\nname: base\n"), end = both.find("\noutput:\n"),
               error = both.find(" error: the program needs ");
  EXPECT_LT(spec, end) << both;
  EXPECT_LT(end, error) << both;
  EXPECT_NE(error, std::string::npos) << both;
}

TEST(Check, RefusesSizesThatCannotBeCounted) {
  const Workplace place;
  const Outcome outcome =
      place.run({"check", "base.yaml", "model.num_hidden_layers=1024", "model.vocab_size=16777216",
                 "model.hidden_size=65536", "train.sequence_len=16777216", "train.micro_batch_size=65536",
                 "model.num_attention_heads=1024", "model.num_key_value_heads=1024",
                 "model.intermediate_size=1048576"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("the program needs more bytes than 64 bits count [out-of-memory]"),
            std::string::npos)
      << outcome.err;
}

TEST(Report, OfASpecThatDoesNotFitSaysSo) {
  const Workplace place;
  const Outcome outcome = place.run({"report", "base.yaml", "--memory", "0.001"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("[out-of-memory]"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(place / "report.html"));
}

TEST(Override, OfTheLengthShortensTheSchedule) {
  const Workplace place;
  spill(place / "warm.yaml", "extends: base.yaml\ntrain: {lr_scheduler: {warmup_steps: 8}}\n");
  const Outcome run = place.run({"warm.yaml", "train.max_steps=4"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("train.lr_scheduler.warmup_steps is 1 instead of 8"), std::string::npos) << run.err;
  const Outcome epochs = place.run({"warm.yaml", "train.epochs=0.01"});
  EXPECT_EQ(epochs.code, 0) << epochs.err;
  EXPECT_NE(epochs.err.find("[schedule-shortened]"), std::string::npos) << epochs.err;
}

TEST(Resume, SaysWhereMoreStepsChangeTheRate) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "train.max_steps=6"}).code, 0);
  const Outcome longer = place.run({"base.yaml", "--resume"});
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_EQ(
      longer.err,
      "note: the schedule is another one now: the learning rate was 3e-05 in step 6, and is 0.00013 in step "
      "7\n");
  const Outcome same = place.run({"base.yaml", "--resume", "train.max_steps=12"});
  EXPECT_EQ(same.err, "");
}

TEST(Keys, AreShownByName) {
  const Workplace place;
  const Outcome key = place.run({"keys", "learning_rate"});
  EXPECT_EQ(key.code, 0);
  EXPECT_TRUE(key.out.starts_with("train.optimizer.learning_rate\n  Peak learning rate.")) << key.out;
  EXPECT_EQ(place.run({"keys", "lerning_rate"}).err,
            "hydrac: error: there is no key lerning_rate: did you mean train.optimizer.learning_rate?\n");
}

}  // namespace
}  // namespace hydrac::e2e
