// Patterns and documents.
#include "data_test.h"
#include "runtime/text/documents.h"

namespace hydrac::runtime {
namespace {

using Names = std::vector<std::string>;

Names names(const TempFolder& folder, const std::vector<std::string>& patterns) {
  Names out;
  for (const InputFile& file : expand_patterns(patterns, folder.path())) {
    EXPECT_EQ(file.path, folder.path() / file.name);
    out.push_back(file.name);
  }
  return out;
}

TEST(Patterns, AreSortedAndNameEachFileOnce) {
  const TempFolder folder;
  for (const char* name : {"b.txt", "a.txt", "B.txt", "c.md", ".hidden.txt", "sub/d.txt", "sub/deep/e.txt",
                           ".git/f.txt", "x[1].txt"}) {
    folder.write(name, "x");
  }
  EXPECT_EQ(names(folder, {"*.txt"}), (Names{"B.txt", "a.txt", "b.txt", "x[1].txt"}));
  EXPECT_EQ(names(folder, {"b.txt", "*.txt"}), (Names{"b.txt", "B.txt", "a.txt", "x[1].txt"}));
  EXPECT_EQ(names(folder, {"./sub/../a.txt", "a.txt"}), (Names{"a.txt"}));
  EXPECT_EQ(names(folder, {"**/*.txt"}),
            (Names{"B.txt", "a.txt", "b.txt", "sub/d.txt", "sub/deep/e.txt", "x[1].txt"}));
  EXPECT_EQ(names(folder, {"sub/**"}), (Names{"sub/d.txt", "sub/deep/e.txt"}));
  EXPECT_EQ(names(folder, {"*/*.txt"}), (Names{"sub/d.txt"}));
  EXPECT_EQ(names(folder, {"?.{md,txt}"}), (Names{"B.txt", "a.txt", "b.txt", "c.md"}));
  EXPECT_EQ(names(folder, {"{a,{b,c}}.*"}), (Names{"a.txt", "b.txt", "c.md"}));
  EXPECT_EQ(names(folder, {"[a-b].txt"}), (Names{"a.txt", "b.txt"}));
  EXPECT_EQ(names(folder, {"[!a].txt"}), (Names{"B.txt", "b.txt"}));
  EXPECT_EQ(names(folder, {"x[1].txt"}), (Names{"x[1].txt"}));
  EXPECT_EQ(names(folder, {".h*"}), (Names{".hidden.txt"}));
}

TEST(Patterns, AbsoluteOnesKeepTheirNames) {
  const TempFolder folder;
  const auto file = folder.write("a.txt", "x");
  const auto found = expand_patterns({folder.path().string() + "/*.txt"}, "elsewhere");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, file.generic_string());
  EXPECT_EQ(found[0].path, file);
}

TEST(Patterns, ThatMatchNothingSayWhy) {
  const TempFolder folder;
  folder.write("sub/a.txt", "x");
  const std::string base = folder.path().generic_string();
  const auto error = [&](const std::vector<std::string>& patterns) {
    return input_error([&] { expand_patterns(patterns, folder.path()); });
  };
  EXPECT_EQ(error({"sub/*.txt", "*.md"}), "no file matches *.md in " + base);
  EXPECT_EQ(error({"b.txt"}), "b.txt: there is no such file in " + base);
  EXPECT_EQ(error({"sub"}), "sub is a folder; name its files, as in sub/*.txt");
  EXPECT_EQ(error({}), "no data files are named");
  EXPECT_EQ(error({"/dev/null"}), "/dev/null is not a regular file");
}

TEST(Patterns, DoNotFollowLinksInARing) {
  const TempFolder folder;
  folder.write("sub/a.txt", "x");
  std::filesystem::create_directory_symlink(folder.path(), folder.path() / "sub/up");
  EXPECT_EQ(names(folder, {"**/*.txt"}), (Names{"sub/a.txt"}));
}

struct Seen {
  std::string text, file;
  int64_t line;
  bool operator==(const Seen&) const = default;
};
std::vector<Seen> documents(const TempFolder& folder, const std::string& pattern,
                            const std::string& key = "text") {
  std::vector<Seen> seen;
  for_each_document(expand_patterns({pattern}, folder.path()), key, [&](const Document& document) {
    seen.push_back({std::string(document.text), document.file, document.line});
  });
  return seen;
}

TEST(Documents, AreTextFilesAndJsonLines) {
  const TempFolder folder;
  folder.write("1.txt", "one\ntwo");
  folder.write("2.jsonl",
               "{\"text\": \"first\\n\", \"id\": 1}\r\n\n{\"text\": \"\"}\n{\"text\": \"h\\u00e9\"}");
  EXPECT_EQ(documents(folder, "*"),
            (std::vector<Seen>{{"one\ntwo", "1.txt", 0}, {"first\n", "2.jsonl", 1}, {"hé", "2.jsonl", 4}}));
}

TEST(Documents, BadOnesAreNamedByFileAndLine) {
  const TempFolder folder;
  const auto error = [&](const std::string& name, std::string_view content) {
    folder.write(name, content);
    return input_error([&] { documents(folder, name, "body"); });
  };
  EXPECT_EQ(error("e.txt", ""), "e.txt: it is empty");
  EXPECT_EQ(error("e.jsonl", ""), "e.jsonl: it is empty");
  EXPECT_EQ(error("b.jsonl", "\n\n"), "b.jsonl: it holds no text");
  EXPECT_EQ(error("n.txt", std::string_view("ab\0c", 4)),
            "n.txt: byte 2 is NUL, so this is binary data or UTF-16, not UTF-8 text");
  EXPECT_EQ(error("n.jsonl", "{\"body\": \"a\\u0000\"}"),
            "n.jsonl:1: byte 1 is NUL, so this is binary data or UTF-16, not UTF-8 text");
  EXPECT_EQ(error("k.jsonl", "{\"body\": \"a\"}\n{\"text\": \"b\"}\n"),
            "k.jsonl:2: the object has no \"body\"");
  EXPECT_EQ(error("t.jsonl", "{\"body\": 3}"), "t.jsonl:1: \"body\" is not a string but number");
  EXPECT_EQ(error("o.jsonl", "[1]"), "o.jsonl:1: the line is not a JSON object");
  EXPECT_EQ(error("j.jsonl", "{\"body\": \"a\"}\n{\"body\": \"b\n"),
            "j.jsonl:2: not valid JSON: it ends too early");
}

TEST(Documents, AFileThatVanishedIsNamed) {
  const TempFolder folder;
  folder.write("a.txt", "x");
  const auto files = expand_patterns({"a.txt"}, folder.path());
  std::filesystem::remove(files[0].path);
  EXPECT_EQ(input_error([&] { for_each_document(files, "text", [](const Document&) {}); }),
            "a.txt: cannot read it: No such file or directory");
}

}  // namespace
}  // namespace hydrac::runtime
