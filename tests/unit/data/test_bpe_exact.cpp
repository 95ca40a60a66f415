// The ids of byte-level BPE against those of Hugging Face's own library, which wrote files/*.expected.json.
#include <chrono>
#include <nlohmann/json.hpp>

#include "data_test.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;

// Compares every case, and that decoding gives back the bytes where the tokenizer does not change the text.
void expect_same_ids(const Tokenizer& tokenizer, const std::string& expected_file, bool reversible) {
  const auto cases = nlohmann::json::parse(read_text(test_file(expected_file)));
  ASSERT_GT(cases.size(), 30u);
  for (const auto& entry : cases) {
    const auto text = entry["text"].get<std::string>();
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(ids, entry["ids"].get<Ids>()) << entry["text"].dump();
    if (reversible) {
      EXPECT_EQ(tokenizer.decode(ids), text);
    }
  }
}

TEST(BpeExact, Gpt2) {
  NEEDS_SHARED_FILE("gpt2-tokenizer.json");
  const auto tokenizer = load_tokenizer(shared_file("gpt2-tokenizer.json"));
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->end_of_text(), 50256);
  expect_same_ids(*tokenizer, "gpt2.expected.json", true);
}

TEST(BpeExact, Gpt2OverAWholeCorpusAndFast) {
  NEEDS_SHARED_FILE("gpt2-tokenizer.json");
  NEEDS_SHARED_FILE("tinyshakespeare.txt");
  const auto tokenizer = load_tokenizer(shared_file("gpt2-tokenizer.json"));
  const std::string text = read_text(shared_file("tinyshakespeare.txt"));
  const auto start = std::chrono::steady_clock::now();
  const Ids ids = tokenizer->encode(text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("megabytes_per_second",
                 std::to_string(1e-6 * static_cast<double>(text.size()) / seconds.count()));
  ASSERT_EQ(ids.size(), 338025u);
  int64_t sum = 0;
  for (size_t i = 0; i < ids.size(); ++i) sum += ids[i] * static_cast<int64_t>(i % 1000 + 1);
  EXPECT_EQ(sum, 703527866670);
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(BpeExact, Llama3StyleSplitAndIgnoreMerges) {
  const auto tokenizer = load_tokenizer(test_file("llama3.tokenizer.json"));
  expect_same_ids(*tokenizer, "llama3.expected.json", true);
  EXPECT_EQ(tokenizer->token_bytes(*tokenizer->end_of_text()), "<|end_of_text|>");
}

TEST(BpeExact, Qwen2StyleNfcAndAddedTokens) {
  const auto tokenizer = load_tokenizer(test_file("qwen2.tokenizer.json"));
  expect_same_ids(*tokenizer, "qwen2.expected.json", false);
  EXPECT_EQ(tokenizer->token_bytes(*tokenizer->end_of_text()), "<|endoftext|>");
}

TEST(BpeExact, PrefixSpaceAndAddedTokensThatStripAndStandAlone) {
  expect_same_ids(*load_tokenizer(test_file("prefix.tokenizer.json")), "prefix.expected.json", false);
}

// SentencePiece's tokens: spaces are marks, unknown characters bytes.
TEST(BpeExact, Llama2StyleByteFallback) {
  for (const char* name : {"llama2", "metaspace", "metaspace-split"}) {
    const auto tokenizer = load_tokenizer(test_file(std::string(name) + ".tokenizer.json"));
    EXPECT_EQ(tokenizer->token_bytes(*tokenizer->end_of_text()), "</s>");
    expect_same_ids(*tokenizer, std::string(name) + ".expected.json", false);
    // A space stands before the text.
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("naïve 日本 🙂\tfox")), " naïve 日本 🙂\tfox")
        << name;
  }
}

TEST(BpeExact, DigitsAndMergingSplits) {
  expect_same_ids(*load_tokenizer(test_file("splits.tokenizer.json")), "splits.expected.json", true);
}

TEST(BpeExact, ContiguousRemovedInvertedAndEmptyMatches) {
  expect_same_ids(*load_tokenizer(test_file("splits2.tokenizer.json")), "splits2.expected.json", false);
}

}  // namespace
}  // namespace hydrac::runtime
