// Token shards, the token cache, and load_tokens().
#include <sys/wait.h>
#include <unistd.h>

#include "data_test.h"
#include "runtime/data/token_shard.h"
#include "runtime/text/load_tokens.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;

Ids all_of(const TokenStore& store) {
  Ids ids(static_cast<size_t>(store.size()));
  store.read(0, ids);
  return ids;
}

template <typename Id>
std::string packed(std::initializer_list<Id> ids) {
  return {reinterpret_cast<const char*>(ids.begin()), ids.size() * sizeof(Id)};
}

// A corpus of two files with a cache, and what loading it said.
struct Corpus {
  TempFolder folder;
  std::vector<std::string> notices;
  int tokenized = 0;  // loads that did not come from the cache
  CorpusOptions options{
      .base = folder.path(),
      .patterns = {"*.txt"},
      .cache_dir = folder.path() / "cache",
      .progress = [this](const TokenizeProgress& p) { tokenized += p.bytes_done == p.bytes_total; },
      .notice = [this](const std::string& line) { notices.push_back(line); }};
  Corpus() {
    folder.write("a.txt", "ab");
    folder.write("b.txt", "cd");
  }
  Ids load() { return all_of(*load_tokens(options, *make_byte_tokenizer())); }
  std::filesystem::path cache_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(options.cache_dir)) {
      if (entry.path().extension() == ".bin") return entry.path();
    }
    ADD_FAILURE() << "no cache file";
    return {};
  }
};

const Ids kAbcd = {'a', 'b', 0, 'c', 'd'};

TEST(LoadTokens, EndOfTextStandsBetweenDocuments) {
  Corpus corpus;
  corpus.options.cache_dir.clear();
  EXPECT_EQ(corpus.load(), kAbcd);
  const auto chars = make_corpus_char_tokenizer(corpus.options);
  EXPECT_EQ(all_of(*load_tokens(corpus.options, *chars)), (Ids{0, 1, 2, 3}))
      << "characters have no end_of_text";
}

TEST(LoadTokens, ReusesTheCacheUntilSomethingChanges) {
  Corpus corpus;
  EXPECT_EQ(corpus.load(), kAbcd);
  EXPECT_EQ(corpus.load(), kAbcd);
  EXPECT_EQ(corpus.tokenized, 1);
  corpus.folder.write("b.txt", "ce");
  EXPECT_EQ(corpus.load(), (Ids{'a', 'b', 0, 'c', 'e'}));
  EXPECT_EQ(corpus.tokenized, 2);
  std::filesystem::rename(corpus.folder.path() / "a.txt", corpus.folder.path() / "z.txt");
  EXPECT_EQ(corpus.load(), (Ids{'c', 'e', 0, 'a', 'b'}));
  EXPECT_EQ(corpus.tokenized, 3);
  const auto chars = make_corpus_char_tokenizer(corpus.options);
  EXPECT_EQ(all_of(*load_tokens(corpus.options, *chars)), (Ids{2, 3, 0, 1}));
  EXPECT_EQ(corpus.tokenized, 4);
  EXPECT_EQ(corpus.notices, std::vector<std::string>{});
}

TEST(LoadTokens, RebuildsADamagedCache) {
  Corpus corpus;
  corpus.load();
  const std::filesystem::path file = corpus.cache_file();
  const std::string good = read_text(file), name = file.generic_string();
  std::string flipped = good;
  flipped[66] ^= 1;
  std::string other_key = good;
  other_key[32] ^= 1;
  const std::vector<std::pair<std::string, std::string>> damages = {
      {flipped,
       name + ": its tokens do not match its checksum; the file is damaged; making the token cache anew"},
      {good.substr(0, good.size() - 3),
       name + ": its header says 5 tokens of 2 bytes, but 7 bytes follow it; making the token cache anew"},
      {good.substr(0, 20), name + ": not a token file: it begins with neither hydrac's header nor llm.c's; "
                                  "making the token cache anew"},
      {"", name + ": not a token file: it begins with neither hydrac's header nor llm.c's; making the token "
                  "cache anew"},
      {other_key, name + ": not the token cache that its name says; making it anew"},
  };
  for (const auto& [content, notice] : damages) {
    std::ofstream(file, std::ios::binary) << content;
    corpus.notices.clear();
    EXPECT_EQ(corpus.load(), kAbcd);
    EXPECT_EQ(corpus.notices, std::vector<std::string>{notice});
    EXPECT_EQ(read_text(file), good);
  }
}

TEST(LoadTokens, WorksWithoutAWritableCacheAndSaysSo) {
  Corpus corpus;
  corpus.options.cache_dir =
      corpus.folder.path() / "a.txt" / "cache";  // below a file: not even root can make it
  EXPECT_EQ(corpus.load(), kAbcd);
  EXPECT_EQ(corpus.notices,
            std::vector<std::string>{
                corpus.options.cache_dir.generic_string() +
                ": cannot store the token cache (Not a directory); tokens stay in memory, and the "
                "next run tokenizes again"});
}

TEST(LoadTokens, RemovesWhatKilledProcessesLeft) {
  Corpus corpus;
  corpus.load();
  const std::filesystem::path file = corpus.cache_file(), leftover = file.string() + ".tmp-abcdef";
  std::filesystem::rename(file, leftover);
  EXPECT_EQ(corpus.load(), kAbcd);
  EXPECT_FALSE(std::filesystem::exists(leftover));
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(LoadTokens, ManyProcessesAtOnceTokenizeOnce) {
  Corpus corpus;
  corpus.folder.write("a.txt", std::string(2'000'000, 'x'));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int status = 2;
      try {
        status = corpus.load().size() == 2'000'003 ? corpus.tokenized : 3;
      } catch (...) {
      }
      _exit(status);
    }
    children.push_back(child);
  }
  int tokenized = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_LE(WEXITSTATUS(status), 1);
    tokenized += WEXITSTATUS(status);
  }
  EXPECT_EQ(tokenized, 1);
}

TEST(LoadTokens, ErrorsNameTheDocument) {
  Corpus corpus;
  const auto chars = make_corpus_char_tokenizer(corpus.options);
  corpus.folder.write("c.txt", "x");
  EXPECT_EQ(input_error([&] { load_tokens(corpus.options, *chars); }),
            "c.txt: byte 0: the character 'x' (U+0078) is not among the 4 of the vocabulary");
  corpus.folder.write("d.jsonl", "{\"text\": \"a\"}\n{\"text\": \"ay\"}\n");
  corpus.options.patterns = {"d.jsonl"};
  EXPECT_EQ(input_error([&] { load_tokens(corpus.options, *chars); }),
            "d.jsonl:2: byte 1: the character 'y' (U+0079) is not among the 4 of the vocabulary");
  corpus.folder.write("e.csv", "x");
  corpus.options.patterns = {"e.csv"};
  EXPECT_EQ(input_error([&] { load_tokens(corpus.options, *chars); }),
            "e.csv: a CSV file holds series, not text");
  corpus.folder.write("f.bin", "x");
  corpus.options.patterns = {"*.txt", "f.bin"};
  EXPECT_EQ(input_error([&] { load_tokens(corpus.options, *chars); }),
            "f.bin is a token shard, and other files are text: give one kind");
  corpus.options.patterns = {"f.bin"};
  EXPECT_EQ(
      input_error([&] { make_corpus_char_tokenizer(corpus.options); }),
      "f.bin is a token shard, and data.tokenizer: char makes its vocabulary from text: write the tokenizer "
      "that the shard was made with, or give text");
}

TEST(RawTokens, AreReadWhateverTheFilesAreCalled) {
  const TempFolder folder;
  folder.write("train.bin", packed<uint16_t>({1, 2, 255}));
  folder.write("more", packed<uint16_t>({7}));
  const auto store = load_tokens(
      {.base = folder.path(), .patterns = {"train.bin", "more"}, .raw_uint16 = true}, *make_byte_tokenizer());
  EXPECT_EQ(all_of(*store), (Ids{1, 2, 255, 7}));
}

TEST(RawTokens, BadOnesAreNamedBeforeTraining) {
  const TempFolder folder;
  const auto error = [&](std::string_view content, bool raw = true) {
    folder.write("t.bin", content);
    return input_error([&] {
      load_tokens({.base = folder.path(), .patterns = {"t.bin"}, .raw_uint16 = raw}, *make_byte_tokenizer());
    });
  };
  EXPECT_EQ(error(""), "t.bin: it holds no tokens");
  EXPECT_EQ(error("abc"), "t.bin: 3 bytes are no whole number of 16-bit ids");
  EXPECT_EQ(error(packed<uint16_t>({1, 2, 256})),
            "t.bin: token 2 is 256, but the vocabulary has 256: name the tokenizer that made the file in "
            "data.tokenizer");
  EXPECT_EQ(
      error(packed<uint16_t>({1, 2}), false),
      "t.bin: not a token file: it begins with neither hydrac's header nor llm.c's; if it is nothing but "
      "16-bit ids, as nanoGPT writes them, write data.format: uint16");
  write_token_shard(folder.path() / "s.bin", packed<uint16_t>({1}), 2, 0, 0);
  EXPECT_EQ(error(read_text(folder.path() / "s.bin")), "t.bin: it has a header: remove data.format");
}

TEST(TokenShards, AreReadAsOneRow) {
  const TempFolder folder;
  write_token_shard(folder.path() / "1.bin", packed<uint16_t>({1, 2, 255}), 2, 0, 0);
  write_token_shard(folder.path() / "2.bin", packed<uint32_t>({7, 9}), 4, 0, 0);
  std::string llmc(1024, '\0');
  const int32_t header[] = {20240520, 1, 2};
  llmc.replace(0, sizeof header, reinterpret_cast<const char*>(header), sizeof header);
  folder.write("3.bin", llmc + packed<uint16_t>({11, 12}));
  const int32_t llama3[] = {20240801, 7, 3};
  llmc.replace(0, sizeof llama3, reinterpret_cast<const char*>(llama3), sizeof llama3);
  folder.write("4.BIN", llmc + packed<uint32_t>({13, 14, 0}));
  const auto store =
      load_tokens({.base = folder.path(), .patterns = {"*.{bin,BIN}"}}, *make_byte_tokenizer());
  EXPECT_EQ(all_of(*store), (Ids{1, 2, 255, 7, 9, 11, 12, 13, 14, 0}));
  Ids middle(4);
  store->read(2, middle);
  EXPECT_EQ(middle, (Ids{255, 7, 9, 11}));
  EXPECT_THROW(store->read(7, middle), std::out_of_range);
}

TEST(TokenShards, BadOnesAreNamed) {
  const TempFolder folder;
  const auto error = [&](std::string_view content) {
    folder.write("s.bin", content);
    return input_error([&] {
      const auto store = load_tokens({.base = folder.path(), .patterns = {"s.bin"}}, *make_byte_tokenizer());
      all_of(*store);
    });
  };
  const auto path = folder.path() / "w.bin";
  write_token_shard(path, packed<uint16_t>({1, 300}), 2, 0, 0);
  EXPECT_EQ(error(read_text(path)),
            "s.bin: token 1 is 300, but the vocabulary has 256; it was made with another tokenizer");
  write_token_shard(path, packed<uint32_t>({0xFFFFFFFFu}), 4, 0, 0);
  EXPECT_EQ(error(read_text(path)),
            "s.bin: token 0 is 4294967295, but the vocabulary has 256; it was made with another tokenizer");
  write_token_shard(path, packed<uint16_t>({1}), 2, 5, 0);
  EXPECT_EQ(error(read_text(path)),
            "s.bin: it was made with the tokenizer 0000000000000005, but this run's is " +
                make_byte_tokenizer()->fingerprint());
  write_token_shard(path, "", 2, 0, 0);
  EXPECT_EQ(error(read_text(path)), "s.bin: it holds no tokens");
  std::string bytes = read_text(path);
  bytes[8] = 2;
  EXPECT_EQ(error(bytes), "s.bin: token file version 2; this program reads 1");
  bytes[8] = 1;
  bytes[12] = 3;
  EXPECT_EQ(error(bytes), "s.bin: tokens of 3 bytes; they must have 2 or 4");
  bytes[12] = 2;
  bytes.replace(16, 8, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
  EXPECT_EQ(error(bytes),
            "s.bin: its header says 18446744073709551615 tokens of 2 bytes, but 0 bytes follow it");
  EXPECT_EQ(error("raw ids"),
            "s.bin: not a token file: it begins with neither hydrac's header nor llm.c's; if it is nothing "
            "but 16-bit "
            "ids, as nanoGPT writes them, write data.format: uint16");
  std::string llmc(1024, '\0');
  const int32_t header[] = {20240801, 1, 0};
  llmc.replace(0, sizeof header, reinterpret_cast<const char*>(header), sizeof header);
  EXPECT_EQ(error(llmc), "s.bin: llm.c token file version 1; this program reads 7");
  llmc[4] = 7, llmc[8] = 2;
  EXPECT_EQ(error(llmc + "123456"), "s.bin: its header says 2 tokens of 4 bytes, but 6 bytes follow it");
}

}  // namespace
}  // namespace hydrac::runtime
