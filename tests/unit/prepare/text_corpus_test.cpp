// Reading: documents of every kind of file, duplicates, and where texts are cut for threads.
#include <gtest/gtest.h>
#include <zlib.h>

#include <fmt/format.h>

#include <set>

#include "hostile_texts.h"
#include "prepare/text_corpus.h"
#include "prepare/token_corpus.h"
#include "prepare/train_tokenizer.h"
#include "runtime/error.h"
#include "runtime/text/tokenizer/tokenizers.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::prepare {
namespace {

using runtime::InputError;
using test::message_of;
using test::spill;
using Texts = std::vector<std::string>;

class ReadingText : public testing::Test {
 protected:
  TextCorpus read(const std::vector<std::string>& files, ReadOptions options = {}) const {
    std::vector<Source> sources;
    for (const std::string& file : files)
      sources.push_back({file, runtime::expand_patterns({file}, folder_.path())});
    options.scratch = folder_ / "scratch";
    if (!options.end_of_text) options.end_of_text = kEndOfText;
    TextCorpus corpus = read_corpus(sources, options);
    EXPECT_FALSE(std::filesystem::exists(options.scratch));
    return corpus;
  }
  static Texts documents(const TextCorpus& corpus) {
    Texts list;
    for (size_t i = 0; i < corpus.size(); ++i) list.emplace_back(corpus.document(i));
    return list;
  }
  static ReadOptions dropping(Dedupe what, int threads = 2) {
    ReadOptions options;
    options.dedupe = what;
    options.threads = threads;
    return options;
  }
  void write(const std::string& name, std::string_view text) const { spill(folder_ / name, text); }
  void write_gzip(const std::string& name, const std::string& text) const {
    gzFile file = gzopen((folder_ / name).c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }
  const test::TempDir folder_;
};

TEST_F(ReadingText, TakesEveryKindOfFile) {
  write("a.txt", "one\ntwo\n");
  write("stories.txt", "<|endoftext|>first\n<|endoftext|>\nsecond<|endoftext|>");
  write("b.jsonl", "{\"text\": \"l\\u00ef\"}\n\n{\"text\": \"\"}\n{\"text\": \"x<|endoftext|>y\"}\n");
  write("c.json", R"([{"text": "j1"}, {"text": "j2"}])");
  write_gzip("d.txt.gz", "packed");
  write_gzip("e.jsonl.gz", "{\"text\": \"packed line\"}\n");
  const TextCorpus corpus = read({"a.txt", "stories.txt", "b.jsonl", "c.json", "d.txt.gz", "e.jsonl.gz"});
  EXPECT_EQ(documents(corpus), (Texts{"one\ntwo\n", "first\n", "\nsecond", "l\u00ef", "x", "y", "j1", "j2",
                                      "packed", "packed line"}));
  ASSERT_EQ(corpus.counts.size(), 6u);
  EXPECT_EQ(corpus.counts[2].documents, 3);
  EXPECT_EQ(corpus.counts[2].bytes, 5);
}

TEST_F(ReadingText, TakesLargeJsonlInParts) {
  std::string text;
  for (int i = 0; i < 30000; ++i)
    text +=
        fmt::format("{{\"text\": \"document {} {}\"}}\n", i, std::string(static_cast<size_t>(i % 900), 'x'));
  ASSERT_GT(text.size(), size_t{12} << 20);
  write("large.jsonl", text);
  ReadOptions options;
  options.threads = 3;
  const TextCorpus corpus = read({"large.jsonl"}, options);
  ASSERT_EQ(corpus.size(), 30000u);
  for (const size_t i : {0u, 9000u, 17777u, 29999u})
    EXPECT_TRUE(corpus.document(i).starts_with(fmt::format("document {} ", i))) << i;
  write("large.jsonl", text + "{\"text\": 1}\n");
  EXPECT_EQ(message_of<InputError>([&] { read({"large.jsonl"}, options); }),
            "large.jsonl:30001: \"text\" is not a string but number");
}

TEST_F(ReadingText, DropsDocumentsThatWereSeen) {
  write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"a\"}\n");
  write("b.txt", "b");
  write("c.txt", "c");
  for (const int threads : {1, 3}) {
    const TextCorpus corpus = read({"a.jsonl", "b.txt", "c.txt"}, dropping(Dedupe::documents, threads));
    EXPECT_EQ(documents(corpus), (Texts{"a", "b", "c"}));
    EXPECT_EQ(corpus.counts[0].dropped_documents, 1);
    EXPECT_EQ(corpus.counts[1].dropped_documents, 1);
    EXPECT_EQ(corpus.counts[1].dropped_bytes, 1);
    EXPECT_EQ(corpus.counts[1].documents, 0);
  }
}

TEST_F(ReadingText, DropsLinesThatWereSeen) {
  write("a.txt", "head\n\none\nhead\n\ntwo");
  write("b.txt", "head\r\n\n  \ntwo\n");
  write("c.txt", "new\ntwo\n one\n");
  const TextCorpus corpus = read({"a.txt", "b.txt", "c.txt"}, dropping(Dedupe::lines));
  EXPECT_EQ(documents(corpus), (Texts{"head\n\none\n\ntwo", "new\n one\n"}));
  EXPECT_EQ(corpus.counts[0].dropped_lines, 1);
  EXPECT_EQ(corpus.counts[1].dropped_lines, 2);
  EXPECT_EQ(corpus.counts[1].dropped_documents, 1);
  EXPECT_EQ(corpus.counts[1].dropped_bytes, 14);
  EXPECT_EQ(corpus.counts[2].dropped_lines, 1);
}

TEST_F(ReadingText, NamesWhatItCannotTake) {
  const auto refused = [&](const std::vector<std::string>& files) {
    return message_of<InputError>([&] { read(files); });
  };
  write("ids.bin", "x");
  write("table.csv", "a,b\n");
  write("ends.txt", "<|endoftext|>");
  write("empty.txt", "");
  write("latin.txt", "caf\xe9");
  write("nul.txt", std::string_view("a\0b", 3));
  write("latin.jsonl", "{\"text\": \"a\"}\n{\"text\": \"caf\xe9\"}\n");
  EXPECT_EQ(refused({"ids.bin"}), "ids.bin: it is a token shard, not text");
  EXPECT_EQ(refused({"table.csv"}), "table.csv: a CSV file holds series, not text");
  EXPECT_EQ(refused({"ends.txt"}), "ends.txt: it holds no text");
  EXPECT_EQ(refused({"empty.txt"}), "empty.txt: it is empty");
  EXPECT_EQ(refused({"latin.txt"}), "latin.txt: byte 3 is not UTF-8; this tokenizer needs UTF-8 text");
  EXPECT_EQ(refused({"nul.txt"}), "nul.txt: byte 1 is NUL, so this is binary data or UTF-16, not UTF-8 text");
  EXPECT_TRUE(refused({"latin.jsonl"}).starts_with("latin.jsonl:2: not valid JSON"))
      << refused({"latin.jsonl"});
  write("a.txt", "a");
  EXPECT_EQ(refused({"a.txt", "*.txt"}).substr(0, 36), "a.txt: it belongs to a.txt and to *.");
}

TEST_F(ReadingText, IsCutWhereTokensDoNotChange) {
  std::string text;
  while (text.size() < size_t{4} << 20) {
    for (const std::string& hostile : hostile_texts()) {
      if (hostile.find("endoftext") == std::string::npos)
        text += hostile + std::string(text.size() % 3, '\n');
    }
  }
  write("large.txt", text);
  write("small.jsonl", "{\"text\": \"a\\n\"}\n{\"text\": \"\\nb\"}\n");
  const TextCorpus corpus = read({"small.jsonl", "large.txt"});
  const std::vector<uint64_t> whole = cut_places(corpus, false), cut = cut_places(corpus, true);
  EXPECT_EQ(whole, (std::vector<uint64_t>{0, text.size() + 4}));
  ASSERT_GE(cut.size(), 4u);
  const std::vector<std::string_view> views = {std::string_view(text).substr(0, 100000)};
  const auto tokenizer = runtime::parse_tokenizer(train_tokenizer(count_words(views, 1), 400), "trained");
  const TokenCorpus one = encode_corpus(corpus, *tokenizer, whole, 1, folder_ / "ids1");
  const TokenCorpus many = encode_corpus(corpus, *tokenizer, cut, 3, folder_ / "ids3");
  EXPECT_EQ(one.ends, many.ends);
  EXPECT_EQ(one.file->bytes(), many.file->bytes());
  ASSERT_EQ(one.ends.size(), 3u);
  EXPECT_EQ(one.ends[2], one.file->bytes().size() / 2);
}

}  // namespace
}  // namespace hydrac::prepare
