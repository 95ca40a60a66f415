#include "runtime/cache/sealed_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <utime.h>

#include "runtime/cache/choice_file.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::slurp;
using test::spill;
using test::TempDir;

const std::string kContent = std::string("code\0of\n a kernel\n", 18);

TEST(SealedFile, GivesBackWhatWasWritten) {
  const TempDir folder;
  for (const std::string& content : {kContent, std::string(), std::string("\nhydrac-seal 1 ")}) {
    ASSERT_TRUE(write_sealed(folder / "below/file", content));
    EXPECT_EQ(read_sealed(folder / "below/file"), content);
  }
}

TEST(SealedFile, OneThatIsNotThereIsNone) {
  const TempDir folder;
  testing::internal::CaptureStderr();
  EXPECT_EQ(read_sealed(folder / "file"), std::nullopt);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(SealedFile, EveryFlippedBitAndEveryTruncationIsNoticed) {
  const TempDir folder;
  ASSERT_TRUE(write_sealed(folder / "file", kContent));
  const std::string whole = slurp(folder / "file");
  testing::internal::CaptureStderr();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      spill(folder / "file", flipped);
      EXPECT_EQ(read_sealed(folder / "file"), std::nullopt) << at << " " << bit;
    }
    spill(folder / "file", whole.substr(0, at));
    EXPECT_EQ(read_sealed(folder / "file"), std::nullopt) << at;
  }
  spill(folder / "file", whole + "more");
  EXPECT_EQ(read_sealed(folder / "file"), std::nullopt);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: " + (folder / "file").string() + ": does not match its checksum; it is made anew\n");
}

TEST(SealedFile, AnothersContentUnderItsNameIsNoticed) {
  const TempDir folder;
  ASSERT_TRUE(write_sealed(folder / "a", kContent));
  std::filesystem::rename(folder / "a", folder / "b");
  EXPECT_EQ(read_sealed(folder / "b"), std::nullopt);
}

TEST(SealedFile, WhatIsNoFileIsNone) {
  const TempDir folder;
  std::filesystem::create_directory(folder / "folder");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", folder / "loop");
  ASSERT_TRUE(write_sealed(folder / "file", kContent));
  std::filesystem::create_symlink("file", folder / "link");
  for (const char* name : {"folder", "pipe", "loop", "link"})
    EXPECT_EQ(read_sealed(folder / name), std::nullopt);
  EXPECT_FALSE(write_sealed(folder / "folder", kContent));
  EXPECT_TRUE(write_sealed(folder / "loop", kContent));
  EXPECT_EQ(read_sealed(folder / "loop"), kContent);
}

TEST(SealedFile, OnlyOldTemporariesAreRemoved) {
  const TempDir folder;
  for (const char* name : {"a.so.tmp-abcdef", "b.so.tmp-abcdef", "c.so"}) spill(folder / name, "x");
  const utimbuf old{1000000000, 1000000000};
  ASSERT_EQ(::utime((folder / "a.so.tmp-abcdef").c_str(), &old), 0);
  ASSERT_EQ(::utime((folder / "c.so").c_str(), &old), 0);
  remove_old_temporaries(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder / "a.so.tmp-abcdef"));
  EXPECT_TRUE(std::filesystem::exists(folder / "b.so.tmp-abcdef"));
  EXPECT_TRUE(std::filesystem::exists(folder / "c.so"));
}

TEST(ChoiceFile, RemembersWithWhatOthersWroteMeanwhile) {
  const TempDir folder;
  ChoiceFile first(folder / "choices"), second(folder / "choices");
  EXPECT_TRUE(first.remember("a", "1"));
  EXPECT_TRUE(second.remember("b", "2"));
  EXPECT_TRUE(first.remember("a", "3"));
  const ChoiceFile all(folder / "choices");
  EXPECT_EQ(all.find("a"), "3");
  EXPECT_EQ(all.find("b"), "2");
  EXPECT_EQ(all.find("c"), std::nullopt);
}

}  // namespace
}  // namespace hydrac::runtime
