// The places of a spec's files.
#include "spec/reader/paths.h"

#include <fmt/format.h>

#include "spec/print.h"
#include "support.h"

namespace hydrac::spec {
namespace {

namespace fs = std::filesystem;

// A test's folder as the working folder.
class Paths : public testing::Test {
 protected:
  Paths() { fs::current_path(folder_.path("")); }
  ~Paths() override { fs::current_path(before_); }

  static void write(const std::string& path, const std::string& text = "text\n") {
    fs::create_directories(fs::path("./" + path).parent_path());
    std::ofstream(path) << text;
  }
  static std::string spec(const std::string& data) {
    return "name: small\nmodel: {hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2}\ndata: " +
           data + "\ntrain: {sequence_len: 64, micro_batch_size: 4, max_steps: 100}\n";
  }

 private:
  const fs::path before_ = fs::current_path();
  const Folder folder_;
};

TEST_F(Paths, OfAFileAreRelativeToIt) {
  write("text.txt");
  write("specs/text.txt");
  write("specs/more/a.txt");
  const Spec there = good(spec("{path: [text.txt, more/*.txt, ../text.txt]}"), {}, "specs/s.yaml");
  EXPECT_EQ(there.data.path, (StringList{"specs/text.txt", "specs/more/*.txt", "text.txt"}));
  const Spec absolute = good(spec("{path: text.txt}"), {}, (fs::current_path() / "specs/s.yaml").string());
  EXPECT_EQ(absolute.data.path, StringList{"specs/text.txt"}) << "however the spec is named";
}

TEST_F(Paths, OfTheCommandLineAreRelativeToTheWorkingFolder) {
  write("specs/text.txt");
  const Spec there =
      good(spec("{path: text.txt}"), {"data.path=text.txt", "data.tokenizer=t.json"}, "specs/s.yaml");
  EXPECT_EQ(there.data.path, StringList{"text.txt"});
  EXPECT_EQ(there.data.tokenizer, "t.json");
}

TEST_F(Paths, ThatAreThereFromTheWorkingFolderAloneAreTakenWithAWarning) {
  write("text.txt");
  write("t.json");
  const Loaded old =
      load(spec("{path: text.txt, tokenizer: t.json, val_path: none.txt}"), {}, "specs/s.yaml");
  ASSERT_TRUE(old.spec);
  EXPECT_EQ(old.spec->data.path, StringList{"text.txt"});
  EXPECT_EQ(old.spec->data.tokenizer, "t.json");
  EXPECT_EQ(old.spec->data.val_path, StringList{"specs/none.txt"}) << "is there from nowhere";
  EXPECT_EQ(old.diagnostics.all().size(), 2u) << old.text();
  EXPECT_NE(old.text().find("help: write ../text.txt\n"), std::string::npos) << old.text();
}

TEST_F(Paths, AreNotWhatAKeyTakesAsAWord) {
  write("specs/byte");
  write("specs/none");
  const Spec words = good(spec("{path: a.txt, tokenizer: byte}"), {}, "specs/s.yaml");
  EXPECT_EQ(words.data.tokenizer, "byte");
  EXPECT_EQ(words.model.weights, "none");
}

TEST_F(Paths, OfAResolvedSpecAreThoseOfTheFolderThatItIsFor) {
  write("text.txt");
  const Spec spec_here = good(spec("{path: text.txt, tokenizer: char}"));
  for (const char* folder : {"runs/small", "runs/small/", "./runs", "runs/../other"}) {
    const std::string file = fmt::format("{}/spec.yaml", folder);
    const Spec again = good(to_yaml(spec_here, folder), {}, file);
    EXPECT_EQ(again.data.path, StringList{"text.txt"}) << folder;
    EXPECT_EQ(again.data.tokenizer, "char");
  }
  EXPECT_NE(to_yaml(spec_here, "runs/small").find("path: [\"../../text.txt\"]"), std::string::npos)
      << to_yaml(spec_here, "runs/small");
}

}  // namespace
}  // namespace hydrac::spec
