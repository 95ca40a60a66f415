// `hydrac data prepare`: from files of text to a run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

class DataPrepare : public testing::Test {
 protected:
  Outcome prepare(const Words& more, const std::string& folder = "tokens") const {
    return place_.run(with({"data", "prepare", "-o", folder}, more));
  }
  // Its files, whole, by name.
  std::map<std::string, std::string> contents(const std::string& folder) const {
    std::map<std::string, std::string> files;
    for (const std::string& name : files_below(place_ / folder)) files[name] = slurp(place_ / folder / name);
    return files;
  }
  nlohmann::json report(const std::string& folder = "tokens") const {
    return nlohmann::json::parse(slurp(place_ / folder / "prepare.json"));
  }
  void refused(const Words& more, const std::string& message) const {
    const Outcome outcome = prepare(more);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "hydrac: error: " + message + "\n");
    EXPECT_FALSE(fs::exists(place_ / "tokens"));
    EXPECT_FALSE(fs::exists(place_ / "tokens.hydrac-tmp"));
  }
  // base.yaml over what the report's YAML names.
  std::string spec_of(const std::string& printed) const {
    const size_t yaml = printed.find("data:\n");
    EXPECT_NE(yaml, std::string::npos) << printed;
    std::string spec = slurp(place_ / "base.yaml");
    const size_t data = spec.find("data:\n"), next = spec.find("train:\n");
    spill(place_ / "prepared.yaml", spec.substr(0, data) + printed.substr(yaml) + spec.substr(next));
    return "prepared.yaml";
  }
  const Workplace place_;
};

TEST_F(DataPrepare, ReportsAndTrains) {
  spill(place_ / "more.jsonl",
        "{\"text\": \"the fox\"}\n{\"text\": \"a longer text about dogs and foxes\"}\n");
  const Outcome prepared =
      prepare({"corpus.txt", "more.jsonl", "--vocab-size", "300", "--val-fraction", "0.1"});
  ASSERT_EQ(prepared.code, 0) << prepared.err;
  EXPECT_EQ(files_below(place_ / "tokens"),
            (Words{"generation_config.json", "prepare.json", "tokenizer.json", "tokenizer_config.json",
                   "train-00001.bin", "val-00001.bin"}));
  const nlohmann::json said = report();
  EXPECT_EQ(said["vocab_size"], 300);
  EXPECT_EQ(said["documents"], 3);
  EXPECT_EQ(said["sources"][0]["name"], "corpus");
  EXPECT_EQ(said["sources"][1]["name"], "more");
  EXPECT_EQ(said["sources"][1]["documents"], 2);
  EXPECT_NE(prepared.out.find("vocabulary: 300 tokens, learned from "), std::string::npos) << prepared.out;
  EXPECT_NE(prepared.out.find("wrote tokens; a spec reads it as\ndata:\n  path: tokens/train-*.bin\n  "
                              "val_path: tokens/val-*.bin\n  tokenizer: tokens/tokenizer.json\n"),
            std::string::npos)
      << prepared.out;
  const Outcome trained =
      place_.run({"-q", spec_of(prepared.out), "train.max_steps=1", "train.save_steps=0"});
  EXPECT_EQ(trained.code, 0) << trained.err;
}

TEST_F(DataPrepare, GivesTheSameBytesWhateverTheThreads) {
  const Words words = {"corpus.txt", "--vocab-size", "290", "--dedupe", "lines"};
  ASSERT_EQ(prepare(with(words, {"--threads", "1"})).code, 0);
  const auto once = contents("tokens");
  const Outcome again = prepare(with(words, {"--threads", "5", "-q"}));  // replaces it
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, "");
  EXPECT_EQ(contents("tokens"), once);
  ASSERT_EQ(prepare(with(words, {"--seed", "8"}), "other").code, 0);
  EXPECT_EQ(contents("other").at("tokenizer.json"), once.at("tokenizer.json"));
  EXPECT_FALSE(fs::exists(place_ / "tokens.hydrac-tmp"));
}

TEST_F(DataPrepare, TakesTheOtherTokenizers) {
  ASSERT_EQ(prepare({"corpus.txt", "--vocab-size", "270"}, "learned").code, 0);
  for (const char* tokenizer : {"byte", "char", "learned/tokenizer.json"}) {
    const Outcome prepared = prepare({"corpus.txt", "--tokenizer", tokenizer, "--val-fraction", "0.1"});
    ASSERT_EQ(prepared.code, 0) << prepared.err;
    const Outcome shown = place_.run({"data", "show", "-n", "40", spec_of(prepared.out)});
    EXPECT_EQ(shown.code, 0) << tokenizer << "\n" << shown.err;
    EXPECT_NE(shown.out.find("fox jum"), std::string::npos) << tokenizer << "\n" << shown.out;
  }
  EXPECT_EQ(slurp(place_ / "tokens/tokenizer.json"), slurp(place_ / "learned/tokenizer.json"));
  EXPECT_EQ(slurp(place_ / "tokens/tokenizer_config.json"), slurp(place_ / "learned/tokenizer_config.json"));
  const Outcome whole = prepare({"corpus.txt", "--tokenizer", "byte", "--val-fraction", "0"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("  val_fraction: 0\n  tokenizer: byte\n"), std::string::npos) << whole.out;
  const auto bytes = static_cast<int64_t>(fs::file_size(place_ / "corpus.txt"));
  EXPECT_EQ(report()["train_tokens"], bytes + 1);
}

TEST_F(DataPrepare, EndsDocumentsAsTheTokenizersFolderSays) {
  ASSERT_EQ(prepare({"corpus.txt", "--vocab-size", "270"}, "model").code, 0);
  fs::remove(place_ / "model/generation_config.json");
  spill(place_ / "model/tokenizer_config.json", R"({"eos_token": "!"})");  // id 0
  ASSERT_EQ(prepare({"corpus.txt", "--tokenizer", "model/tokenizer.json", "--val-fraction", "0"}).code, 0);
  EXPECT_TRUE(slurp(place_ / "tokens/train-00001.bin").ends_with(std::string(2, '\0')));
  EXPECT_EQ(nlohmann::json::parse(slurp(place_ / "tokens/generation_config.json"))["eos_token_id"], 0);
}

// "aaaa" has the most common bytes, "xyz" the rarest ones; several shards keep the order.
TEST_F(DataPrepare, OrdersDocumentsFromEasyToHard) {
  std::string lines;
  for (const char* text : {"xyz", "aab", "abcde", "aaaa", "b", "bbab"})
    lines += nlohmann::json{{"text", text}}.dump() + "\n";
  spill(place_ / "few.jsonl", lines);
  const Words words = {"few.jsonl", "--tokenizer", "byte", "--val-fraction", "0"};
  const auto text_of_shard = [&] {  // ids of two bytes, of which the second one is 0
    const std::string bytes = slurp(place_ / "tokens/train-00001.bin");
    std::string text;
    for (size_t i = 0; i < bytes.size(); i += 2) text += bytes[i] >= 'a' && bytes[i] <= 'z' ? bytes[i] : ' ';
    return text;
  };
  const auto place_of = [&](const char* text) { return text_of_shard().find(text); };
  const Outcome by_length = prepare(with(words, {"--order", "length"}));
  ASSERT_EQ(by_length.code, 0) << by_length.err;
  EXPECT_EQ(report()["order"], "length");
  EXPECT_NE(by_length.out.find("\norder: by length, short documents first\n"), std::string::npos)
      << by_length.out;
  EXPECT_LT(place_of("aab"), place_of("aaaa"));
  EXPECT_LT(place_of("xyz"), place_of("bbab"));
  EXPECT_LT(place_of("bbab"), place_of("abcde"));
  ASSERT_EQ(prepare(with(words, {"--order", "rarity", "-q"})).code, 0);
  EXPECT_EQ(report()["order"], "rarity");
  EXPECT_LT(place_of("aaaa"), place_of("aab"));
  EXPECT_LT(place_of("aab"), place_of("bbab"));
  EXPECT_LT(place_of("bbab"), place_of("abcde"));
  EXPECT_LT(place_of("abcde"), place_of("xyz"));
  ASSERT_EQ(prepare(with(words, {"-q"})).code, 0);
  EXPECT_EQ(report()["order"], "shuffled");
}

// What a run with a curriculum reads first is what was written first.
TEST_F(DataPrepare, ShowsWhatACurriculumDrawsFirst) {
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += nlohmann::json{{"text",
                             std::string(static_cast<size_t>(i * 7 % 60) + 1, i * 7 % 60 < 10 ? 's' : 'l')}}
                 .dump() +
             "\n";
  spill(place_ / "texts.jsonl", lines);
  const Outcome prepared =
      prepare({"texts.jsonl", "--tokenizer", "byte", "--val-fraction", "0", "--order", "length"});
  ASSERT_EQ(prepared.code, 0) << prepared.err;
  const Outcome shown = place_.run({"data", "show", "-q", spec_of(prepared.out), "-n", "300",
                                    "data.curriculum={steps: 100, start: 0.01}", "train.max_steps=100"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(shown.out.starts_with("sequence 1: ")) << shown.out;
  const size_t second = shown.out.find("sequence 2: ");
  EXPECT_NE(shown.out.find(", drawn from the first 1.0% of the data\n"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.substr(0, second).find("sss"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.substr(0, second).find("lll"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.substr(shown.out.find("sequence 300: ")).find("lll"), std::string::npos) << shown.out;
}

TEST_F(DataPrepare, WeighsSourcesAndDropsDuplicates) {
  spill(place_ / "a.jsonl", "{\"body\": \"ab\"}\n{\"body\": \"cd\"}\n{\"body\": \"ab\"}\n");
  spill(place_ / "b.jsonl", "{\"body\": \"cd\"}\n{\"body\": \"efghi\"}\n");
  const Outcome prepared =
      prepare({"a.jsonl", "b.jsonl", "--tokenizer", "byte", "--text-key", "body", "--dedupe", "documents",
               "--weight", "a=3", "--weight", "b=0.5", "--val-fraction", "0"});
  ASSERT_EQ(prepared.code, 0) << prepared.err;
  // Behind the progress that a busy machine may have to tell.
  const size_t table = prepared.out.find("source  documents");
  ASSERT_NE(table, std::string::npos) << prepared.out;
  EXPECT_EQ(prepared.out.substr(table),
            "source  documents      bytes  weight  train tokens    val tokens\n"
            "a               2        4 B       3            18             0\n"
            "b               1        5 B     0.5             3             0\n"
            "all             3        9 B                    21             0\n"
            "dropped as duplicates: 2 whole documents, 4 B\n"
            "vocabulary: 256 tokens; 1.00 bytes a token\n"
            "shards: 1 to train, 0 to validate\n"
            "\n"
            "wrote tokens; a spec reads it as\n"
            "data:\n"
            "  path: tokens/train-*.bin\n"
            "  val_fraction: 0\n"
            "  tokenizer: byte\n");
}

// All text in it and below, whatever else lies there.
TEST_F(DataPrepare, TakesFolders) {
  fs::create_directories(place_ / "texts[1]/deeper");
  fs::create_directories(place_ / "texts[1]/.hidden");
  spill(place_ / "texts[1]/b.md", "second");
  spill(place_ / "texts[1]/a.jsonl", "{\"text\": \"first\"}\n");
  spill(place_ / "texts[1]/deeper/c.txt", "third");
  spill(place_ / "texts[1]/table.csv", "a,b\n1,2\n");
  spill(place_ / "texts[1]/old.bin", "no text");
  spill(place_ / "texts[1]/.hidden/d.txt", "hidden");
  spill(place_ / "texts[1]/deeper/empty.txt", "");
  const Words more = {"--tokenizer", "byte", "--val-fraction", "0"};
  ASSERT_EQ(prepare(with(more, {"texts[1]/"}), "texts[1]/tokens").code, 0);
  const auto train = [&](const std::string& folder) { return slurp(place_ / folder / "train-00001.bin"); };
  const std::string first = train("texts[1]/tokens");
  const nlohmann::json said = report("texts[1]/tokens");
  EXPECT_EQ(said["documents"], 3);
  EXPECT_EQ(said["sources"].size(), 1u);
  EXPECT_EQ(said["sources"][0]["name"], "texts[1]");
  // Again, beside what that left there.
  ASSERT_EQ(prepare(with(more, {"texts[1]"}), "texts[1]/tokens").code, 0);
  EXPECT_EQ(train("texts[1]/tokens"), first);
  // Nor is it text for another preparation.
  ASSERT_EQ(prepare(with(more, {"texts[1]"}), "others").code, 0);
  EXPECT_EQ(train("others"), first);
  fs::remove_all(place_ / "texts[1]/tokens");
  fs::create_directory(place_ / "empty");
  refused({"empty"}, "empty: there is no text in this folder");
  fs::rename(place_ / "texts[1]", place_ / "texts");
  ASSERT_EQ(prepare(with(more, {"texts/{a.jsonl,b.md,deeper/c.txt}"})).code, 0);
  EXPECT_EQ(train("tokens"), first);
}

TEST_F(DataPrepare, SaysWhatIsWrong) {
  const Words corpus = {"corpus.txt"};
  refused({}, "which text? Give files, folders or patterns, as data/*.txt");
  refused({"none.txt"}, "none.txt: there is no such file in " + place_.path().string());
  refused(
      with(corpus, {"--vocab-size", "256"}),
      "a vocabulary of 256 is too small: the 256 bytes and <|endoftext|> are 257 tokens, and merges come on "
      "top");
  const Outcome large = prepare(corpus);
  EXPECT_EQ(large.code, 2);
  EXPECT_TRUE(large.err.starts_with("hydrac: error: a vocabulary of 32768 is larger than this text gives: "))
      << large.err;
  refused(with(corpus, {"--vocab-size", "300", "--tokenizer", "byte"}),
          "--vocab-size is for a tokenizer that is learned, and --tokenizer names one: give one of them");
  refused(with(corpus, {"--tokenizer", "none.json"}), "none.json: cannot read it: No such file or directory");
  refused(with(corpus, {"--val-fraction", "0.7"}), "--val-fraction takes a number of 0 to 0.5, not \"0.7\"");
  refused(
      with(corpus, {"--tokenizer", "byte", "--val-fraction", "1e-9"}),
      fmt::format("a fraction of 1e-09 of {} tokens leaves none to validate with: take a larger one, or 0",
                  fs::file_size(place_ / "corpus.txt") + 1));
  refused(with(corpus, {"--weight", "wiki=2"}), "--weight wiki=2: no source is called wiki, but corpus");
  refused(with(corpus, {"--weight", "corpus"}), "--weight takes NAME=W, as wiki=2, not \"corpus\"");
  refused(with(corpus, {"--weight", "corpus=0"}),
          "--weight corpus takes a number of 0.001 to 1000, not \"0\"");
  refused(with(corpus, {"--dedupe", "words"}), "--dedupe takes lines or documents, not \"words\"");
  const Outcome nowhere = place_.run({"data", "prepare", "corpus.txt"});
  EXPECT_EQ(nowhere.err, "hydrac: error: where to? Give -o FOLDER\n");
}

TEST_F(DataPrepare, ReplacesNothingThatItDidNotMake) {
  const Words words = {"corpus.txt", "--tokenizer", "byte"};
  fs::create_directory(place_ / "tokens");
  Outcome refused = prepare(words);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "hydrac: error: tokens is there, and not made by data prepare: name another folder\n");
  ASSERT_EQ(prepare(words, "made/").code, 0);
  spill(place_ / "made/notes.txt", "mine");
  refused = prepare(words, "made");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(
      refused.err,
      "hydrac: error: made would be replaced, but notes.txt in it is not made by data prepare: move it, or "
      "name another folder\n");
  EXPECT_EQ(slurp(place_ / "made/notes.txt"), "mine");
}

TEST_F(DataPrepare, KilledLeavesNothingThatLooksWhole) {
  std::string text;
  for (uint64_t i = 0, word = 1; i < 600000; ++i) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    text += fmt::format("{:x} ", word >> 44);
  }
  spill(place_ / "large.txt", text);
  {
    Process process(place_.path(), {"data", "prepare", "large.txt", "-o", "tokens", "--vocab-size", "5000"});
    while (!fs::exists(place_ / "tokens.hydrac-tmp/text.scratch"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    process.send(SIGSTOP);  // it must not come to its end meanwhile
    const Outcome other = prepare({"corpus.txt", "--tokenizer", "byte"});
    EXPECT_EQ(other.code, 2);
    EXPECT_EQ(other.err, "hydrac: error: tokens.hydrac-tmp: another hydrac is writing to this folder\n");
    process.send(SIGKILL);
    EXPECT_EQ(process.finish().code, 1000 + SIGKILL);
  }
  EXPECT_FALSE(fs::exists(place_ / "tokens"));
  EXPECT_TRUE(fs::exists(place_ / "tokens.hydrac-tmp"));
  ASSERT_EQ(prepare({"corpus.txt", "--tokenizer", "byte"}).code, 0);
  EXPECT_FALSE(fs::exists(place_ / "tokens.hydrac-tmp"));
  EXPECT_EQ(files_below(place_ / "tokens"), (Words{"prepare.json", "train-00001.bin", "val-00001.bin"}));
}

}  // namespace
}  // namespace hydrac::e2e
