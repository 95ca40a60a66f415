// `hydrac sample`: text from a run that has ended.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

// A run that all tests here read and none writes to.
class Sample : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    ASSERT_EQ(place_->run({"-q", "base.yaml"}).code, 0);
  }
  static void TearDownTestSuite() {
    delete place_;
    place_ = nullptr;
  }
  static std::string sample(const Words& options) {
    Words words = {"sample", "runs/base", "--threads", "1", "--max-new-tokens", "12"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome outcome = place_->run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  }
  static inline Workplace* place_ = nullptr;
};

TEST_F(Sample, IsTheSameTwiceAtTemperatureZero) {
  const std::string first = sample({"--temperature", "0", "--prompt", "line 1"});
  EXPECT_EQ(sample({"--temperature", "0", "--prompt", "line 1"}), first);
}

TEST_F(Sample, BeginsWithThePrompt) {
  const std::string text = sample({"--prompt", "say \"a\\b\": \xc3\xa4"});
  EXPECT_TRUE(text.starts_with("say \"a\\b\": \xc3\xa4")) << text;
}

TEST_F(Sample, DependsOnTheSeedAndOnNothingElse) {
  const std::string first = sample({"--temperature", "1", "--seed", "5"});
  EXPECT_EQ(sample({"--temperature", "1", "--seed", "5"}), first);
  EXPECT_NE(sample({"--temperature", "1", "--seed", "6"}), first);
}

TEST_F(Sample, AmongTheOneLikeliestTokenIsGreedy) {
  EXPECT_EQ(sample({"--top-k", "1", "--prompt", "the fox"}),
            sample({"--temperature", "0", "--prompt", "the fox"}));
}

// What the run's spec has without effect was said when it began.
TEST_F(Sample, WarnsOfItsOwnOptionsAlone) {
  const Workplace place;
  const Words run = {"base.yaml", "train.max_steps=1", "train.lr_scheduler.name=constant",
                     "train.lr_scheduler.min_ratio=0.5", "output.dir=runs/constant"};
  const std::string has_no_effect = " has no effect";
  EXPECT_NE(place.run(run).err.find("train.lr_scheduler.min_ratio" + has_no_effect), std::string::npos);
  const auto warnings = [&](const Words& options) {
    return place.run(with({"sample", "runs/constant", "--max-new-tokens", "1"}, options)).err;
  };
  EXPECT_EQ(warnings({}), "");
  const std::string own = warnings({"--temperature", "0", "--top-k", "3"});
  EXPECT_NE(own.find("sample.top_k" + has_no_effect), std::string::npos) << own;
  EXPECT_EQ(own.find("min_ratio" + has_no_effect), std::string::npos) << own;
}

TEST_F(Sample, LeavesTheRunAsItIs) {
  const Words before = files_below(place_->path());
  sample({"--prompt", "line"});
  EXPECT_EQ(files_below(place_->path()), before);
}

TEST_F(Sample, FollowsARunThatWasMoved) {
  const std::string first = sample({"--temperature", "0", "--prompt", "line 1"});
  const Workplace elsewhere;
  fs::copy(*place_ / "runs/base", elsewhere / "moved", fs::copy_options::recursive);
  fs::remove(elsewhere / "corpus.txt");
  const Outcome outcome = elsewhere.run({"sample", "moved", "--threads", "1", "--max-new-tokens", "12",
                                         "--temperature", "0", "--prompt", "line 1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, first);
}

TEST_F(Sample, TakesTheCheckpointThatIsNamed) {
  const Workplace elsewhere;
  fs::copy(*place_ / "runs/base", elsewhere / "moved", fs::copy_options::recursive);
  const auto sample_of = [&](const std::string& folder) {
    return elsewhere.run(
        {"sample", folder, "--threads", "1", "--max-new-tokens", "40", "--temperature", "1"});
  };
  const Outcome named = sample_of("moved/checkpoint-4/");
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out, sample_of("moved").out);
  for (const int later : {6, 8, 10, 12})
    fs::remove_all(elsewhere / ("moved/checkpoint-" + std::to_string(later)));
  EXPECT_EQ(sample_of("moved").out, named.out);
  fs::resize_file(elsewhere / "moved/checkpoint-4/model.safetensors", 100);
  const Outcome damaged = sample_of("moved/checkpoint-4");
  EXPECT_EQ(damaged.code, 2);
  EXPECT_TRUE(damaged.err.starts_with(
      "hydrac: error: moved/checkpoint-4 is damaged: model.safetensors has 100 bytes, the manifest says "))
      << damaged.err;
}

TEST_F(Sample, OfACheckpointNeedsTheRunsSpec) {
  const Workplace elsewhere;
  fs::copy(*place_ / "runs/base/checkpoint-4", elsewhere / "checkpoint-4");
  const Outcome outcome = elsewhere.run({"sample", "checkpoint-4"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "hydrac: error: checkpoint-4 does not say what model it is: " +
                             fs::canonical(elsewhere.path()).string() + "/spec.yaml is missing\n");
}

// Verbs that take a spec show the program that generates.
const Words kGenerates = {"--generate", "--batch", "3", "--prompt-tokens", "4", "sample.max_new_tokens=12"};

TEST_F(Sample, IsPlannedToTheByte) {
  const Outcome outcome = place_->run(with({"explain", "base.yaml"}, kGenerates));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"\nprefill\n", "\ndecode\n", "attention_decode", "cache_append"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  EXPECT_EQ(outcome.out.find("\ngenerate\n"), std::string::npos);
  // 2 layers of 3 texts, 2 heads, 16 tokens, 16 floats.
  for (const char* name : {"cache.keys", "cache.values"}) {
    const size_t at = outcome.out.find(std::string(" 12288  ") + name);
    EXPECT_NE(at, std::string::npos) << name;
  }
  // 2 layers of 3 texts, each layer in whole 256 bytes: 3 rows of 3 taps of 6 heads of 8, and 2 rows of
  // values.
  const Outcome compressed = place_->run(
      with({"explain", "base.yaml", "model.attention_kind=ccgqa", "model.head_dim=8"}, kGenerates));
  EXPECT_NE(compressed.out.find(" 10752  cache.attn.head_conv.taps"), std::string::npos) << compressed.err;
  EXPECT_NE(compressed.out.find(" 1024  cache.attn.v"), std::string::npos) << compressed.err;
  const Outcome check = place_->run(with({"check", "base.yaml"}, kGenerates));
  EXPECT_NE(check.out.find("alive at once at most in decode"), std::string::npos) << check.out;
}

TEST_F(Sample, APoolOfPagesIsPlannedToTheByte) {
  const Words generates = with(kGenerates, {"sample.cache_memory=7e-5"});
  const Outcome outcome = place_->run(with({"explain", "base.yaml"}, generates));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  // 2 pages of 2 layers, 2 heads, 64 tokens, 16 floats.
  for (const char* part :
       {" 32768  cache.keys", " 32768  cache.values", "page_table",
        "keys and values lie in 2 pages of 64 tokens, 128 tokens in all, which 3 texts share; "
        "one of them has up to 1 pages"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  const Outcome check = place_->run(with({"check", "base.yaml"}, generates));
  EXPECT_NE(
      check.out.find("\n  pool                      65536 bytes   64.0 KiB, keys and values: 2 pages of 64 "
                     "tokens, 128 tokens that 3 texts share\n"),
      std::string::npos)
      << check.out;
  // More than all texts have room for is not planned.
  const Outcome ample =
      place_->run(with({"check", "base.yaml"}, with(kGenerates, {"sample.cache_memory=1"})));
  EXPECT_NE(ample.out.find("3 pages of 64 tokens"), std::string::npos) << ample.out;
}

TEST_F(Sample, IsTimedWithRandomWeights) {
  const Outcome outcome = place_->run(with({"bench", "base.yaml"}, kGenerates));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("base: 3 texts of 4 + 12 tokens side by side\n36 tokens in "))
      << outcome.out;
  const Outcome json = place_->run(with(with({"bench", "base.yaml"}, kGenerates), {"--json"}));
  EXPECT_GT(nlohmann::json::parse(json.out)["tokens_per_second"], 0);
}

TEST_F(Sample, PlansNothingThatCannotBeGenerated) {
  const auto error_of = [&](const Words& words) {
    return place_->run(with({"check", "base.yaml"}, words)).err;
  };
  EXPECT_EQ(error_of({"--batch", "3"}), "hydrac: error: --batch is for --generate\n");
  EXPECT_EQ(error_of({"--generate", "--batch", "0"}), "hydrac: error: --batch is 0; it must be 1 or more\n");
  EXPECT_EQ(
      error_of({"--generate", "--prompt-tokens", "9", "sample.max_new_tokens=8"}),
      "hydrac: error: --prompt-tokens 9 and sample.max_new_tokens 8 are more than the 16 positions of the "
      "model\n");
}

using Json = nlohmann::json;

// Many prompts at once.
class SampleFile : public Sample {
 protected:
  static constexpr const char* kPrompts =
      "{\"prompt\": \"line 1\"}\n\n{\"prompt\": \"\"}\n{\"prompt\": \"the fox, \\u00e4\"}\n{\"prompt\": "
      "\"x\"}\n";

  SampleFile() {
    fs::copy(*place_ / "runs/base", elsewhere_ / "run", fs::copy_options::recursive);
    test::spill(elsewhere_ / "in.jsonl", kPrompts);
  }

  Outcome outcome_of(const Words& options, const std::string& input = "in.jsonl") {
    return elsewhere_.run(
        with({"sample", "run", "--threads", "1", "--max-new-tokens", "7", "--file", input}, options));
  }
  std::vector<Json> answers(const Words& options) {
    const Outcome outcome = outcome_of(with(options, {"-q"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return lines_of(outcome.out);
  }
  static std::vector<Json> lines_of(const std::string& text) {
    std::vector<Json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  void expect_refused(const std::string& line, const std::string& why) {
    test::spill(elsewhere_ / "bad.jsonl", "{\"prompt\": \"a\"}\n" + line + "\n");
    const Outcome outcome = outcome_of({}, "bad.jsonl");
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "hydrac: error: " + why + "\n");
  }

  Workplace elsewhere_;
};

TEST_F(SampleFile, AnswersEachPromptInItsOrderAsItIsAnsweredAlone) {
  const std::vector<Json> lines = answers({"--temperature", "0", "--batch", "3"});
  ASSERT_EQ(lines.size(), 4u);
  const char* prompts[] = {"line 1", "", "the fox, \u00e4", "x"};
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["prompt"], prompts[i]);
    ASSERT_EQ(lines[i]["replies"].size(), 1u);
    const Json& reply = lines[i]["replies"][0];
    const Outcome alone = elsewhere_.run({"sample", "run", "--threads", "1", "--max-new-tokens", "7",
                                          "--temperature", "0", "--prompt", prompts[i]});
    EXPECT_EQ(alone.out, prompts[i] + reply["text"].get<std::string>() + "\n");
    if (reply["end"] != "end_of_text") {
      EXPECT_EQ(reply["end"], "length");
      EXPECT_EQ(reply["tokens"], 7);
    }
  }
  EXPECT_EQ(lines[0]["prompt_tokens"], 6);
  EXPECT_EQ(lines[1]["prompt_tokens"], 1) << "what begins a document";
}

TEST_F(SampleFile, RepliesHaveSeedsOfTheirOwnWhateverIsBesideThem) {
  const std::vector<Json> three = answers({"--temperature", "1", "-n", "3", "--seed", "5"}),
                          one_by_one =
                              answers({"--temperature", "1", "-n", "3", "--seed", "5", "--batch", "1"}),
                          second = answers({"--temperature", "1", "--seed", "6"});
  EXPECT_EQ(three, one_by_one);
  for (size_t i = 0; i < three.size(); ++i) {
    ASSERT_EQ(three[i]["replies"].size(), 3u);
    EXPECT_EQ(three[i]["replies"][1], second[i]["replies"][0]);
    EXPECT_NE(three[i]["replies"][0], three[i]["replies"][2]);
  }
}

// A page has 64 tokens of 2 layers, 2 heads of 16 floats, keys and values: 32 KiB. A text has one.
TEST_F(SampleFile, FromAPoolOfPagesAnswersAreTheSame) {
  const Words greedy = {"--temperature", "0", "--batch", "3"};
  const Outcome outcome = outcome_of(with(greedy, {"--cache-memory", "7e-5"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("; at most 2 of 2 pages in use, texts put back 0 times\n"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(lines_of(outcome.out), answers(greedy));
  const Outcome alone = elsewhere_.run({"sample", "run", "--threads", "1", "--max-new-tokens", "7",
                                        "--temperature", "0", "--prompt", "x", "sample.cache_memory=1"});
  EXPECT_EQ(alone.out, "x" + answers(greedy)[3]["replies"][0]["text"].get<std::string>() + "\n");
}

TEST_F(SampleFile, APoolThatDoesNotHoldOneTextIsAnError) {
  constexpr const char* what =
      "error: 31.5 KiB of keys and values are 0 pages of 64 tokens; a text of 16 tokens needs 1, 32.0 KiB "
      "[cache-too-small]\n";
  constexpr const char* help =
      "  help: sample.cache_memory: 3.052e-05 is the least, 0 gives each text room for the longest\n";
  const Outcome outcome = outcome_of({"--cache-memory", "3e-5"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with(std::string("<command line>:1:45: ") + what)) << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with(help)) << outcome.err;
  test::spill(elsewhere_ / "pool.yaml", "extends: base.yaml\nsample:\n  cache_memory: 3e-5\n");
  const Outcome check = elsewhere_.run(with({"check", "pool.yaml"}, kGenerates));
  EXPECT_EQ(check.code, 2);
  EXPECT_EQ(check.err,
            std::string("pool.yaml:3:17: ") + what + "    cache_memory: 3e-5\n                  ^\n" + help);
  EXPECT_EQ(outcome_of({"--cache-memory", "much"}).err,
            "hydrac: error: --cache-memory takes a number, not the text \"much\"\n");
}

TEST_F(SampleFile, WritesAFileAndSaysHowFastItWas) {
  const Outcome outcome = outcome_of({"-o", "out.jsonl", "--temperature", "0"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find(" tokens/s; "), std::string::npos) << outcome.err;
  EXPECT_EQ(lines_of(test::slurp(elsewhere_ / "out.jsonl")), answers({"--temperature", "0"}));
  const Outcome again = outcome_of({"-o", "out.jsonl"});
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(again.err, "hydrac: error: out.jsonl is there already: choose another --output, or remove it\n");
}

TEST_F(SampleFile, EndsBeforeAStopString) {
  const std::vector<Json> all = answers({"--temperature", "0"});
  const std::string text = all[0]["replies"][0]["text"];
  ASSERT_GE(text.size(), 3u);
  const std::string stop = text.substr(2, 1);
  const Json reply = answers({"--temperature", "0", "--stop", stop})[0]["replies"][0];
  EXPECT_EQ(reply["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(reply["end"], "stop");
}

TEST_F(SampleFile, PromptsOfAnArrayAreThoseOfLines) {
  test::spill(elsewhere_ / "bad.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \"bc\"}\n");
  test::spill(elsewhere_ / "in.json", R"([{"prompt": "a", "id": 3}, {"prompt": ""}, {"prompt": "bc"}])");
  const Outcome lines = outcome_of({}, "bad.jsonl"), array = outcome_of({}, "in.json");
  EXPECT_EQ(array.code, 0) << array.err;
  EXPECT_EQ(array.out, lines.out);
  test::spill(elsewhere_ / "in.json", R"([{"prompt": "a"}, {"prompt": 3}])");
  EXPECT_TRUE(outcome_of({}, "in.json").err.starts_with("hydrac: error: in.json"))
      << outcome_of({}, "in.json").err;
}

TEST_F(SampleFile, BadLinesAreErrorsAtTheirPlace) {
  constexpr const char* wanted = "; a line is {\"prompt\": \"...\"}";
  expect_refused("[1]", std::string("bad.jsonl:2: this is no object") + wanted);
  expect_refused("{}", std::string("bad.jsonl:2: there is no \"prompt\"") + wanted);
  expect_refused(R"({"prompt": 3})", std::string("bad.jsonl:2: \"prompt\" is no text") + wanted);
  expect_refused(R"({"prompt": "a", "temp": 1})", std::string("bad.jsonl:2: unknown key \"temp\"") + wanted);
  expect_refused(R"({"prompt": "0123456789abcdefg"})",
                 "bad.jsonl:2: the prompt has 17 tokens, and the model sees 16");
  test::spill(elsewhere_ / "bad.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": ");
  EXPECT_TRUE(outcome_of({}, "bad.jsonl").err.starts_with("hydrac: error: bad.jsonl:2: not valid JSON"));
  test::spill(elsewhere_ / "bad.jsonl", "\n");
  EXPECT_EQ(outcome_of({}, "bad.jsonl").err, "hydrac: error: bad.jsonl has no line with a prompt\n");
  EXPECT_EQ(outcome_of({}, ".").err,
            "hydrac: error: . is a folder: --file is one of lines {\"prompt\": \"...\"}\n");
  EXPECT_EQ(outcome_of({}, "none.jsonl").err,
            "hydrac: error: cannot read none.jsonl: No such file or directory\n");
}

TEST_F(SampleFile, BadOptionsAreErrors) {
  const auto error_of = [&](const Words& options) { return outcome_of(options).err; };
  EXPECT_EQ(error_of({"-n", "0"}), "hydrac: error: --replies is 0; it must be between 1 and 1048576\n");
  EXPECT_EQ(error_of({"--batch", "0"}), "hydrac: error: --batch is 0; it must be between 1 and 1048576\n");
  EXPECT_EQ(error_of({"--prompt", "a"}), "hydrac: error: --prompt and --file are both given: choose one\n");
  EXPECT_EQ(error_of({"--logits"}),
            "hydrac: error: --logits is for one prompt: leave --file, --replies and --output out\n");
  EXPECT_EQ(error_of({"--stop", ""}),
            "hydrac: error: stop holds an empty text, which every text would end before\n");
}

}  // namespace
}  // namespace hydrac::e2e
