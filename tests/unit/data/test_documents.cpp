// Where a corpus's documents end, and that data which does not say it is refused.
#include "data_test.h"
#include "runtime/data/token_shard.h"
#include "runtime/text/text_corpus.h"

namespace hydrac::runtime {
namespace {

using Ids = std::vector<int32_t>;

class DocumentsOfData : public testing::Test {
 protected:
  Corpus open(const std::string& file, const std::string& tokenizer = "byte") const {
    DataSettings settings;
    settings.path = {(folder_.path() / file).string()};
    settings.tokenizer = tokenizer;
    settings.document_mask = true;
    settings.batch_size = 1;
    settings.sequence_len = 6;
    settings.shuffle = false;
    return open_text(settings, true);
  }
  Ids positions(const std::string& file) const {
    Batch batch;
    open(file).loader->fill_train(0, batch);
    return batch.positions;
  }
  TempFolder folder_;
};

TEST_F(DocumentsOfData, AreLinesElementsAndFiles) {
  folder_.write("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cdef\"}\n");
  folder_.write("b.json", R"([{"text": "a"}, {"text": "bcdef"}])");
  folder_.write("files/1.txt", "abc");
  folder_.write("files/2.txt", "defg");
  EXPECT_EQ(positions("a.jsonl"), (Ids{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(positions("b.json"), (Ids{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(positions("files/*.txt"), (Ids{0, 1, 2, 3, 0, 1}));
}

TEST_F(DocumentsOfData, OfShardsEndBehindEndOfText) {
  const std::vector<uint16_t> ids = {'a', 0, 'b', 'c', 0, 'd', 'e', 'f'};
  write_token_shard(folder_.path() / "ids.bin",
                    {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(uint16_t)}, 2, 0, 0);
  EXPECT_EQ(positions("ids.bin"), (Ids{0, 1, 0, 1, 2, 0}));
}

TEST_F(DocumentsOfData, AreRefusedWhereNothingSaysWhereTheyEnd) {
  folder_.write("one.txt", "one long text");
  folder_.write("short.txt", "ab");
  folder_.write("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cdef\"}\n");
  EXPECT_EQ(
      input_error([&] { open("one.txt"); }),
      "data.path: the 13 tokens to train on are of one document, for none of them is 0, which ends a text: "
      "give more documents, or write data.document_mask: false");
  EXPECT_TRUE(input_error([&] {
                open("short.txt");
              }).starts_with("the training data has 2 tokens, but a sequence of "));
  EXPECT_EQ(
      input_error([&] { open("a.jsonl", "char"); }),
      "char: the tokenizer has no token that ends a text, so that documents cannot be told apart: write "
      "data.document_mask: false");
}

}  // namespace
}  // namespace hydrac::runtime
