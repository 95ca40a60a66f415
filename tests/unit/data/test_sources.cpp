// Patterns and documents.
#include <zlib.h>
#include <zstd.h>

#include "data_test.h"
#include "runtime/text/documents.h"
#include "runtime/text/unpack.h"

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
               "{\"text\": \"first\\n\", \"id\": 1}\r\n\n{\"text\": \"\"}\n{\"text\": \"h\\u00e9\\u0000\"}");
  EXPECT_EQ(documents(folder, "*"), (std::vector<Seen>{{"one\ntwo", "1.txt", 0},
                                                       {"first\n", "2.jsonl", 1},
                                                       {std::string("hé\0", 4), "2.jsonl", 4}}));
}

TEST(Documents, AreKnownByNamesInCapitalsToo) {
  const TempFolder folder;
  folder.write("1.JSONL", "{\"text\": \"one\"}\n");
  folder.write("2.NDJson", "{\"text\": \"two\"}\n");
  folder.write("3.JSON", "[{\"text\": \"three\"}]");
  folder.write("4.TXT", "four");
  EXPECT_EQ(
      documents(folder, "*"),
      (std::vector<Seen>{
          {"one", "1.JSONL", 1}, {"two", "2.NDJson", 1}, {"three", "3.JSON", 1}, {"four", "4.TXT", 0}}));
  EXPECT_EQ(source_kind("t.BIN"), SourceKind::tokens);
  EXPECT_EQ(source_kind("t.Csv"), SourceKind::csv);
  EXPECT_EQ(source_kind("t.JSON.GZ"), SourceKind::json);
  EXPECT_EQ(source_kind("jsonl"), SourceKind::text);
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
  EXPECT_EQ(error("k.jsonl", "{\"body\": \"a\"}\n{\"text\": \"b\"}\n"),
            "k.jsonl:2: the object has no \"body\" but \"text\": data.text_key says which field is the text");
  EXPECT_EQ(error("t.jsonl", "{\"body\": 3}"), "t.jsonl:1: \"body\" is not a string but number");
  EXPECT_EQ(error("o.jsonl", "[1]"), "o.jsonl:1: this is array, not a JSON object");
  EXPECT_EQ(error("j.jsonl", "{\"body\": \"a\"}\n{\"body\": \"b\n"),
            "j.jsonl:2: not valid JSON: it ends too early");
}

TEST(Documents, AreElementsOfAJsonArray) {
  const TempFolder folder;
  folder.write("a.json", "[{\"text\": \"one\"}, {\"text\": \"\"},\n {\"text\": \"two\"}]");
  EXPECT_EQ(documents(folder, "*"), (std::vector<Seen>{{"one", "a.json", 1}, {"two", "a.json", 3}}));
  const auto error = [&](std::string_view content) {
    folder.write("b.json", content);
    return input_error([&] { documents(folder, "b.json"); });
  };
  EXPECT_EQ(error("{\"text\": \"a\"}\n{\"text\": \"b\"}\n"),
            "b.json: it has one JSON object a line: let its name end in .jsonl");
  EXPECT_EQ(error("{\"data\": []}"),
            "b.json: a .json file is read as an array of objects, and this is object; text ends in .txt, one "
            "object "
            "a line in .jsonl");
  EXPECT_EQ(error("[{\"text\": \"a\"}, \"b\"]"), "b.json: element 2: this is string, not a JSON object");
  EXPECT_EQ(
      error("[{\"content\": \"a\", \"id\": 1}]"),
      "b.json: element 1: the object has no \"text\" but \"content\", \"id\": data.text_key says which field "
      "is the text");
  EXPECT_EQ(error("[]"), "b.json: it holds no text");
  EXPECT_EQ(error("[{\"text\": \"a\"}"), "b.json: not valid JSON: it ends too early");
}

std::string gzipped(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Documents, AreUnpackedWhereTheNameEndsInGz) {
  const TempFolder folder;
  std::string large;
  for (int i = 0; i < 200000; ++i) large += static_cast<char>('a' + i * i % 23);
  const std::string padding(700, '\0');
  folder.write("1.txt.gz", gzipped("one\n") + padding + gzipped(large));  // as cat makes of two files
  folder.write("2.JSONL.GZ", gzipped("{\"text\": \"two\"}\n") + padding);
  folder.write("3.json.gz", gzipped("[{\"text\": \"three\"}]"));
  EXPECT_EQ(documents(folder, "*"),
            (std::vector<Seen>{
                {"one\n" + large, "1.txt.gz", 0}, {"two", "2.JSONL.GZ", 1}, {"three", "3.json.gz", 1}}));
  const auto error = [&](const std::string& name, std::string_view content) {
    folder.write(name, content);
    return input_error([&] { documents(folder, name); });
  };
  const std::string whole = gzipped("some text");
  EXPECT_EQ(error("c.txt.gz", whole.substr(0, whole.size() - 4)), "c.txt.gz: gzip data is cut short");
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;
  EXPECT_EQ(error("d.txt.gz", damaged), "d.txt.gz: gzip data is damaged after 0 unpacked bytes");
  EXPECT_EQ(error("p.txt.gz", "plain"), "p.txt.gz: its name ends in .gz, and it is not compressed by gzip");
  EXPECT_EQ(error("e.txt.gz", gzipped("")), "e.txt.gz: it is empty");
  EXPECT_EQ(
      error("g.txt", whole),
      "g.txt: it is compressed by gzip: unpack it with gunzip, or let the name of text or JSONL end in .gz");
  EXPECT_EQ(error("t.txt.gz", gzipped("a") + "tail"),
            "t.txt.gz: gzip data is damaged after 1 unpacked bytes");
  EXPECT_EQ(error("u.txt", std::string_view("\xff\xfe"
                                            "a\0",
                                            4)),
            "u.txt: it is UTF-16: convert it with iconv -f UTF-16 -t UTF-8");
  EXPECT_EQ(error("z.txt", std::string_view("PK\x03\x04\0", 5)),
            "z.txt: it is a zip archive: unpack it with unzip");
}

std::string zstd_of(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

TEST(Documents, AreUnpackedWhereTheNameEndsInZst) {
  const TempFolder folder;
  std::string large;
  for (int i = 0; i < 700000; ++i) large += static_cast<char>('a' + i * i % 23);
  const std::string skipped("\x50\x2a\x4d\x18\x04\0\0\0abcd", 12);  // a skippable frame
  folder.write("1.txt.zst", skipped + zstd_of("one\n") + zstd_of(large));
  folder.write("2.JSONL.ZST", zstd_of("{\"text\": \"two\"}\n"));
  EXPECT_EQ(documents(folder, "*"),
            (std::vector<Seen>{{"one\n" + large, "1.txt.zst", 0}, {"two", "2.JSONL.ZST", 1}}));
  const auto error = [&](const std::string& name, std::string_view content) {
    folder.write(name, content);
    return input_error([&] { documents(folder, name); });
  };
  const std::string whole = zstd_of(large);
  EXPECT_EQ(error("c.txt.zst", whole.substr(0, whole.size() / 2)), "c.txt.zst: zstd data is cut short");
  EXPECT_EQ(error("t.txt.zst", zstd_of("a") + "tail"),
            "t.txt.zst: zstd data is damaged after 1 unpacked bytes");
  EXPECT_EQ(error("p.txt.zst", "plain"),
            "p.txt.zst: its name ends in .zst, and it is not compressed by zstd");
  EXPECT_EQ(error("e.txt.zst", zstd_of("")), "e.txt.zst: it is empty");
  EXPECT_EQ(error("g.txt", whole),
            "g.txt: it is compressed by zstd: unpack it with zstd -d, or let the name of text "
            "or JSONL end in .zst");
}

TEST(Unpacked, IsNoMoreThanMemoryHolds) {
  const std::string zeros(1 << 20, '0');
  EXPECT_EQ(unpacked(Packing::zstd, zstd_of(zeros), "z", zeros.size()), zeros);
  for (const Packing packing : {Packing::gzip, Packing::zstd}) {
    const std::string packed = packing == Packing::gzip ? gzipped(zeros) : zstd_of(zeros);
    EXPECT_EQ(input_error([&] { unpacked(packing, packed, "z", zeros.size() - 1); }),
              "z: it unpacks to more than 1048575 bytes, which is too much to hold in memory at once: unpack "
              "it to a "
              "file");
  }
}

TEST(Documents, MayBeFieldsOfFields) {
  const TempFolder folder;
  folder.write("a.jsonl", "{\"a\": {\"b\": \"one\"}}\n{\"a.b\": \"two\", \"a\": {\"b\": \"no\"}}\n");
  EXPECT_EQ(documents(folder, "*", "a.b"), (std::vector<Seen>{{"one", "a.jsonl", 1}, {"two", "a.jsonl", 2}}));
  EXPECT_EQ(input_error([&] { documents(folder, "a.jsonl", "a.c"); }),
            "a.jsonl:1: the object has no \"a.c\" but \"a\": data.text_key says which field is the text");
  EXPECT_EQ(input_error([&] { documents(folder, "a.jsonl", "a"); }),
            "a.jsonl:1: \"a\" is not a string but object");
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
