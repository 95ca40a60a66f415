#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"
#include "tests/unit/checkpoint/fixtures.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::slurp;
using test::spill;
using test::TempDir;

// The vectors of RFC 3720 (iSCSI), B.4, and the usual check value.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c(bytes_of("")), 0U);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8a9136aaU);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62a8ab43U);
}

TEST(Crc32c, TablesAndInstructionAgreeOnEveryLengthAndStart) {
  std::mt19937 random(3);
  std::string text(300, '\0');
  for (char& c : text) c = static_cast<char>(random());
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t count = 0; count + begin <= text.size(); ++count) {
      const auto part = bytes_of(text).subspan(begin, count);
      const uint32_t crc = crc32c_portable(part);
      ASSERT_EQ(crc32c(part), crc);
      ASSERT_EQ(crc32c(part.subspan(count / 3), crc32c(part.first(count / 3))), crc) << "in two pieces";
    }
  }
}

TEST(FileWriterTest, CountsAndSumsWhateverThePieces) {
  const TempDir dir;
  std::string expected;
  FileWriter file(dir / "x");
  for (const size_t size : {size_t{1}, size_t{300'000}, size_t{0}, size_t{262'144}, size_t{262'143},
                            size_t{2}, size_t{100'000}, size_t{200'000}}) {
    const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
    file.write(piece);
    expected += piece;
  }
  EXPECT_EQ(file.size(), expected.size());
  EXPECT_EQ(file.crc32c(), crc32c(bytes_of(expected)));
  file.close_durably();
  EXPECT_TRUE(slurp(dir / "x") == expected);
  EXPECT_EQ(message_of<std::logic_error>([&] { file.write("more"); }),
            "FileWriter::write after close_durably");
}

TEST(FileWriterTest, WhatCannotBeCreatedIsSaid) {
  const TempDir dir;
  const std::string path = (dir / "missing/x").string();
  EXPECT_EQ(message_of<RunError>([&] { FileWriter file(path); }),
            "cannot create " + path + ": No such file or directory");
  EXPECT_EQ(message_of<RunError>([&] { FileWriter file(dir.path()); }),
            "cannot create " + dir.path().string() + ": Is a directory");
}

TEST(ReplaceFile, PutsNewContentsInPlaceOfOld) {
  const TempDir dir;
  replace_file(dir / "x", "old");
  replace_file(dir / "x", "new");
  EXPECT_EQ(slurp(dir / "x"), "new");
  EXPECT_FALSE(std::filesystem::exists(dir / "x.tmp"));
}

TEST(ReplaceFile, AFailureLeavesTheOldAndNoTemporary) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "x");
  EXPECT_EQ(message_of<RunError>([&] { replace_file(dir / "x", "new"); }),
            "cannot replace " + (dir / "x").string() + ": Is a directory");
  EXPECT_TRUE(std::filesystem::is_directory(dir / "x"));
  EXPECT_FALSE(std::filesystem::exists(dir / "x.tmp"));
}

TEST(ReadFile, AllOfItOrTheReason) {
  const TempDir dir;
  const std::string text = std::string(200'000, 'q') + '\0' + "end";
  spill(dir / "x", text);
  EXPECT_TRUE(read_file(dir / "x") == text);
  EXPECT_EQ(message_of<InputError>([&] { read_file(dir / "y"); }),
            "cannot read " + (dir / "y").string() + ": No such file or directory");
  EXPECT_EQ(message_of<InputError>([&] { read_file(dir.path()); }),
            "cannot read " + dir.path().string() + ": it is a folder");
}

}  // namespace
}  // namespace hydrac::runtime
