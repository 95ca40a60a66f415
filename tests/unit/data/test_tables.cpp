// RowTexts of Parquet and Arrow files, by a Python with pyarrow and by programs that only say they are one.
#include <nlohmann/json.hpp>

#include <cstdlib>

#include "data_test.h"
#include "runtime/text/documents.h"
#include "tests/unit/support/command.h"

namespace hydrac::runtime {
namespace {

// Names the Python that reads tables, and what it finds beside its own packages, as long as it lives.
class NamedPython {
 public:
  explicit NamedPython(const std::string& python) {
    ::setenv("HYDRAC_PYTHON", python.c_str(), 1);
    ::setenv("PYTHONPATH", (test::source_dir() + "/.cache/pyarrow").c_str(), 1);
  }
  ~NamedPython() {
    restore("PYTHONPATH", packages_before_);
    restore("HYDRAC_PYTHON", before_);
  }
  NamedPython(const NamedPython&) = delete;
  NamedPython& operator=(const NamedPython&) = delete;

 private:
  static std::string value(const char* name) { return std::getenv(name) ? std::getenv(name) : ""; }
  static void restore(const char* name, const std::string& before) {
    before.empty() ? ::unsetenv(name) : ::setenv(name, before.c_str(), 1);
  }

  const std::string before_ = value("HYDRAC_PYTHON"), packages_before_ = value("PYTHONPATH");
};

using RowTexts = std::vector<std::pair<std::string, int64_t>>;

RowTexts row_texts(const TempFolder& folder, const std::string& name, const std::string& text_key = "text",
                   std::optional<RowGroups> groups = {}) {
  RowTexts rows;
  for_each_row_document(expand_patterns({name}, folder.path()).front(), groups, text_key,
                        [&](const Document& document) { rows.emplace_back(document.text, document.line); });
  return rows;
}

// Files that pyarrow writes, by a script in the folder.
class Tables : public testing::Test {
 protected:
  void SetUp() override {
    const std::string python = test::python_with_packages();
    reader_.emplace(python);
    if (test::run_command("'" + python + "' -c 'import pyarrow.parquet'").code != 0)
      GTEST_SKIP() << "NOT RUN: " << python << " has no pyarrow; ./dev setup gets it";
    folder_.write("make.py", R"(import pyarrow as pa, pyarrow.parquet as pq
texts = ["one", None, "", "zwei \u00e4\u00f6 \U0001f600\nline", "five"] * 3
table = pa.table({"id": range(15), "text": texts, "raw": [b"\xff"] * 15, "score": [float("nan")] * 15})
for by in ["none", "snappy", "gzip", "zstd"]:
    pq.write_table(table, by + ".parquet", compression=by, row_group_size=4, use_dictionary=by == "zstd")
for name, new in [("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)]:
    with pa.OSFile(name + ".arrow", "wb") as sink, new(sink, table.schema) as out:
        out.write_table(table, max_chunksize=4)
chats = [[{"role": "user", "content": "q", "name": None}, {"role": "assistant", "content": "a", "name": "b"}]]
pq.write_table(pa.table({"messages": chats, "when": pa.array([0], pa.timestamp("s"))}), "chat.parquet")
pq.write_table(pa.table({"a": [{"b": "deep"}]}), "deep.parquet")
pq.write_table(pa.table({"text": [b"ab", b"\xff"]}), "bytes.parquet")
pq.write_table(pa.table({"text": [1]}), "numbers.parquet")
pq.write_table(table.slice(0, 0), "empty.parquet")
whole = open("none.parquet", "rb").read()
open("cut.parquet", "wb").write(whole[:-100])
open("text.parquet", "w").write("no table")
)");
    const auto made =
        test::run_command("cd '" + folder_.path().string() + "' && '" + python + "' make.py 2>&1");
    ASSERT_EQ(made.code, 0) << made.output;
  }

  std::string error(const std::string& name, const std::string& text_key = "text") const {
    return input_error([&] {
      for_each_document(expand_patterns({name}, folder_.path()), text_key, [](const Document&) {});
    });
  }

  const TempFolder folder_;
  std::optional<NamedPython> reader_;
};

TEST_F(Tables, RowsAreDocumentsWhateverTheFileIs) {
  RowTexts expected;
  for (int64_t i = 0; i < 3; ++i) {
    expected.emplace_back("one", 5 * i + 1);
    expected.emplace_back("zwei äö 😀\nline", 5 * i + 4);
    expected.emplace_back("five", 5 * i + 5);
  }
  for (const char* name :
       {"none.parquet", "snappy.parquet", "gzip.parquet", "zstd.parquet", "file.arrow", "stream.arrow"})
    EXPECT_EQ(row_texts(folder_, name), expected) << name;
  EXPECT_EQ(row_texts(folder_, "deep.parquet", "a.b"), (RowTexts{{"deep", 1}}));
}

TEST_F(Tables, AreReadInPiecesOfWholeRowGroups) {
  const InputFile file = expand_patterns({"zstd.parquet"}, folder_.path()).front();
  const std::vector<RowGroups> groups = row_groups(file, 1);
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(row_groups(file, int64_t{1} << 40).size(), 1u);
  RowTexts all;
  int64_t next = 1;
  for (const RowGroups& group : groups) {
    EXPECT_EQ(group.first_row, next);
    next += group.rows;
    const RowTexts rows = row_texts(folder_, "zstd.parquet", "text", group);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  EXPECT_EQ(next, 16);
  EXPECT_EQ(all, row_texts(folder_, "zstd.parquet"));
}

TEST_F(Tables, RecordsHaveTheFieldsThatAreThere) {
  std::vector<nlohmann::json> records;
  for_each_record(expand_patterns({"chat.parquet", "none.parquet"}, folder_.path()),
                  [&](const Record& record) { records.push_back(record.value); });
  ASSERT_EQ(records.size(), 16u);
  EXPECT_EQ(records[0].dump(),
            R"({"messages":[{"content":"q","role":"user"},{"content":"a","name":"b","role":"assistant"}],)"
            R"("when":"1970-01-01 00:00:00"})");
  EXPECT_EQ(records[1], nlohmann::json::parse(R"({"id": 0, "text": "one", "score": null})"));
}

TEST_F(Tables, BadOnesSayWhatIsWrong) {
  EXPECT_EQ(error("bytes.parquet"), "bytes.parquet: row 2: its bytes are not UTF-8");
  EXPECT_EQ(error("numbers.parquet"), "numbers.parquet: row 1: \"text\" is not a string but number");
  EXPECT_EQ(error("empty.parquet"), "empty.parquet: it holds no text");
  EXPECT_EQ(error("zstd.parquet", "body"),
            "zstd.parquet: it has no column \"body\" but \"id\", \"text\", \"raw\", "
            "\"score\": data.text_key says which is the text");
  for (const char* name : {"cut.parquet", "text.parquet"}) {
    const std::string why = error(name);
    EXPECT_TRUE(why.starts_with(std::string(name) + ": it is damaged, or no parquet file: ")) << why;
  }
}

// A program in the place of Python that prints `lines`.
std::string error_behind(const std::string& lines) {
  const TempFolder folder;
  folder.write("t.parquet", "whatever");
  const auto program = folder.write("python", "#!/bin/sh\nprintf '" + lines + "'\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const NamedPython reader(program.string());
  const std::string why = input_error([&] { row_texts(folder, "t.parquet"); });
  const size_t at = why.find(program.string());
  return at == std::string::npos ? why
                                 : why.substr(0, at) + "PYTHON" + why.substr(at + program.string().size());
}

TEST(TableReader, ThatFailsIsNamed) {
  const std::string advice =
      ": install it (pip install pyarrow), or name a Python that has it in $HYDRAC_PYTHON";
  EXPECT_EQ(error_behind("MNo module\\n"),
            "t.parquet: tables are read by pyarrow, and PYTHON does not have it" + advice);
  EXPECT_EQ(error_behind(""), "t.parquet: tables are read by pyarrow, and PYTHON cannot be run" + advice);
  EXPECT_EQ(error_behind("R{\\042text\\042:\\042a\\042}\\n"),
            "t.parquet: the Python that reads it ended after 1 rows");
  EXPECT_EQ(error_behind("R{\\042text\\042:\\042a\\042}\\nR{\\042te"),
            "t.parquet: the Python that reads it ended after 1 rows");
  EXPECT_EQ(error_behind("Ewrong\\n"), "t.parquet: wrong");
  const TempFolder folder;
  folder.write("t.parquet", "whatever");
  const NamedPython reader("/nonexistent/python");
  EXPECT_EQ(input_error([&] { row_texts(folder, "t.parquet"); }),
            "t.parquet: tables are read by pyarrow, and /nonexistent/python cannot be run" + advice);
}

}  // namespace
}  // namespace hydrac::runtime
