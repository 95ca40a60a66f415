// What data is known by: a resumed run and all ranks compare it.
#include <chrono>
#include <thread>

#include "data_test.h"
#include "runtime/data/data_identity.h"
#include "runtime/data/hash.h"
#include "runtime/data/token_shard.h"
#include "runtime/series/series_corpus.h"
#include "runtime/text/text_corpus.h"

namespace hydrac::runtime {
namespace {

namespace fs = std::filesystem;
using Entries = std::map<std::string, std::string>;

class Identity : public testing::Test {
 protected:
  Identity() {
    settings_.tokenizer = "byte";
    settings_.batch_size = 1;
    settings_.sequence_len = 4;
    settings_.cache_dir = (folder_.path() / "cache").string();
  }
  std::vector<std::string> in_folder(const std::string& name) const {
    return {(folder_.path() / name).string()};
  }
  Entries of_text(const std::string& train, const std::string& val = "") {
    settings_.path = in_folder(train);
    settings_.val_path = val.empty() ? std::vector<std::string>() : in_folder(val);
    return open_text(settings_, true).identity.entries();
  }
  Entries of_series(const std::string& csv) {
    folder_.write("x.csv", csv);
    settings_.path = in_folder("x.csv");
    settings_.target = {"y"};
    settings_.features = {"a"};
    return open_series(settings_, true).identity.entries();
  }
  void write_ids(const std::string& name, const std::vector<uint16_t>& ids) {
    const std::string bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]);
    write_token_shard(folder_.path() / name, bytes, 2, 0, 0);
    folder_.write("raw-" + name, bytes);
  }

  TempFolder folder_;
  DataSettings settings_;
};

// A difference far from both ends of a text.
std::string long_text(char middle) {
  std::string text(3'000'000, 'a');
  text[1'500'000] = middle;
  return text;
}

TEST_F(Identity, IsOfAllOfAText) {
  folder_.write("a.txt", long_text('a'));
  folder_.write("b.txt", long_text('b'));
  EXPECT_NE(of_text("a.txt"), of_text("b.txt"));
}

TEST_F(Identity, IsOfContentsAndNotOfNamesOrTheCache) {
  folder_.write("a.txt", "some text to read");
  folder_.write("b.txt", "some text to read");
  const Entries first = of_text("a.txt");
  EXPECT_EQ(of_text("a.txt"), first);  // from the cache
  EXPECT_EQ(of_text("b.txt"), first);
  settings_.cache_dir.clear();
  EXPECT_EQ(of_text("a.txt"), first);
}

TEST_F(Identity, HasValidationDataOfItsOwn) {
  folder_.write("a.txt", "some text to read");
  folder_.write("v.txt", "other text, to validate");
  folder_.write("w.txt", "other text: to validate");
  const Entries alone = of_text("a.txt"), v = of_text("a.txt", "v.txt"), w = of_text("a.txt", "w.txt");
  EXPECT_EQ(alone.at("data"), v.at("data"));
  EXPECT_FALSE(alone.contains("data.val_path, the files"));
  EXPECT_NE(v.at("data.val_path, the files"), w.at("data.val_path, the files"));
}

TEST_F(Identity, IsOfItemsAndWhatIsLearnedOfThem) {
  settings_.items = true;
  folder_.write("a.jsonl", R"({"prompt": "ab", "completion": "cd"})"
                           "\n");
  folder_.write("b.jsonl", R"({"prompt": "abc", "completion": "d"})"
                           "\n");
  EXPECT_NE(of_text("a.jsonl"), of_text("b.jsonl"));
  EXPECT_NE(of_text("a.jsonl", "a.jsonl").at("data.val_path, the files"),
            of_text("a.jsonl", "b.jsonl").at("data.val_path, the files"));
}

TEST_F(Identity, IsOfAllTokensOfShards) {
  std::vector<uint16_t> ids(3'000'000, 7);
  write_ids("a.bin", ids);
  ids[1'500'000] = 8;
  write_ids("b.bin", ids);
  EXPECT_NE(of_text("a.bin"), of_text("b.bin"));
  settings_.raw_uint16 = true;
  EXPECT_NE(of_text("raw-a.bin"), of_text("raw-b.bin"));
}

TEST_F(Identity, IsOfTheChosenNumbersOfSeries) {
  const std::string rows = "\n1,5,2\n2,5,3\n3,5,4\n4,5,6\n5,5,7\n";
  const Entries first = of_series("a,b,y" + rows);
  EXPECT_EQ(of_series("a,b,y\n1,0,2\n2,1,3\n3,2,4\n4,3,6\n5,4,7\n"), first);  // nobody reads b
  EXPECT_NE(of_series("a,b,y\n1,5,2\n2,5,3\n3,5,4\n4,5,6\n5,5,8\n"), first);  // a target
  EXPECT_NE(of_series("a,b,y\n1,5,2\n2,5,3\n3,5,4\n4,5,6\n6,5,7\n"), first);  // a feature
  // Standardized, these are the same numbers.
  EXPECT_NE(of_series("a,b,y\n1,5,20\n2,5,30\n3,5,40\n4,5,60\n5,5,70\n"), first);
}

TEST_F(Identity, OfALargeFileIsReadOnce) {
  const fs::path file = folder_.write("large", "the bytes"), cache = folder_.path() / "hashes";
  fs::create_directory(cache);
  const auto hash = [&](std::string_view bytes) { return hash_of_file(file, bytes, cache, 1); };
  const uint64_t first = Hash64().add(std::string_view("the bytes")).value();
  // Nothing is remembered of a file that has just changed.
  while (fs::is_empty(cache)) {
    ASSERT_EQ(hash("the bytes"), first);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(hash("unread..."), first);
  for (const auto& entry : fs::directory_iterator(cache)) std::ofstream(entry.path()) << "damaged";
  EXPECT_EQ(hash("the bytes"), first);
  folder_.write("large", "new bytes");
  EXPECT_EQ(hash("new bytes"), Hash64().add(std::string_view("new bytes")).value());
}

}  // namespace
}  // namespace hydrac::runtime
