// Trained tokenizers: read by hydrac's own reader, and by Hugging Face's package where there is one.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hostile_texts.h"
#include "prepare/train_tokenizer.h"
#include "runtime/error.h"
#include "runtime/text/tokenizer/tokenizers.h"
#include "tests/unit/support/command.h"
#include "tests/unit/support/source_dir.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::prepare {
namespace {

namespace fs = std::filesystem;
using test::slurp;
using test::spill;

// Text of several kinds that the repository has: prose, code, JSON.
std::vector<std::string> texts() {
  const fs::path root = test::source_dir();
  std::vector<std::string> list;
  for (const char* name : {"docs/data.md", "docs/tuning.md", "compiler/cli/verbs.cpp", "specs/schema.json",
                           "tests/unit/data/files/qwen2.expected.json"})
    list.push_back(slurp(root / name));
  return list;
}

std::string train(const std::vector<std::string>& from, int64_t vocab_size, int threads = 2) {
  const std::vector<std::string_view> views(from.begin(), from.end());
  return train_tokenizer(count_words(views, threads), vocab_size);
}

TEST(TrainTokenizer, IsReadAndGivesBackEveryText) {
  const auto tokenizer = runtime::parse_tokenizer(train(texts(), 1000), "trained");
  EXPECT_EQ(tokenizer->name(), "bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 1000);
  EXPECT_EQ(tokenizer->end_of_text(), 999);
  EXPECT_TRUE(tokenizer->is_special(999));
  for (const std::string& text : hostile_texts()) EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  size_t bytes = 0, tokens = 0;
  for (const std::string& text : texts()) {
    const std::vector<int32_t> ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    bytes += text.size();
    tokens += ids.size();
  }
  EXPECT_GT(static_cast<double>(bytes) / static_cast<double>(tokens), 2.2);
}

TEST(TrainTokenizer, DoesNotDependOnThreadsOrOrder) {
  std::vector<std::string> from = texts();
  const std::string json = train(from, 700, 1);
  EXPECT_EQ(train(from, 700, 5), json);
  std::ranges::reverse(from);
  EXPECT_EQ(train(from, 700, 3), json);
}

TEST(TrainTokenizer, BytesAloneAreAVocabulary) {
  const auto tokenizer = runtime::parse_tokenizer(train({"abc abc"}, kSmallestVocabulary), "trained");
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>").size(), 2u);
  EXPECT_EQ(tokenizer->vocab_size(), 257);
}

TEST(TrainTokenizer, SaysHowManyTokensTheTextGives) {
  try {
    train({"ab ab cd"}, 1000);
    FAIL();
  } catch (const runtime::InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "a vocabulary of 1000 is larger than this text gives: 258 tokens are found, and then no pair "
        "of them occurs twice; ask for 258 at most, or give more text");
  }
  EXPECT_NO_THROW(train({"ab ab cd"}, 258));
}

test::CommandOutcome compare_with_package(const fs::path& cases) {
  return test::run_command("'" + test::python_with_packages() + "' '" + test::source_dir() +
                           "/tests/unit/prepare/hugging_face_tokenizers.py' '" + cases.string() + "' 2>&1");
}

TEST(TrainTokenizer, IsThatOfHuggingFacesPackage) {
  const test::TempDir folder;
  for (const int64_t vocab_size : {300, 2500}) {
    const std::string json = train(texts(), vocab_size);
    const auto tokenizer = runtime::parse_tokenizer(json, "trained");
    spill(folder / "tokenizer.json", json);
    nlohmann::json cases = nlohmann::json::array();
    std::vector<std::string> all = hostile_texts();
    for (const std::string& text : texts()) all.push_back(text);
    for (const std::string& text : all) cases.push_back({{"text", text}, {"ids", tokenizer->encode(text)}});
    spill(folder / "cases.json", nlohmann::json{{"tokenizer", (folder / "tokenizer.json").string()},
                                                {"trained_on", texts()},
                                                {"vocab_size", vocab_size},
                                                {"merges", nlohmann::json::parse(json)["model"]["merges"]},
                                                {"cases", cases}}
                                     .dump());
    const test::CommandOutcome script = compare_with_package(folder / "cases.json");
    constexpr int kPackageMissing = 77, kNoPython = 127;
    if (script.code == kPackageMissing || script.code == kNoPython) {
      GTEST_SKIP() << "trained tokenizers were not compared with Hugging Face's package: " << script.output
                   << "HYDRAC_PYTHON may name a Python that has it";
    }
    EXPECT_EQ(script.code, 0) << script.output;
  }
}

}  // namespace
}  // namespace hydrac::prepare
