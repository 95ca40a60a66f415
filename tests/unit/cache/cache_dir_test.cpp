#include "runtime/cache/cache_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>

#include "runtime/error.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

class CacheDir : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HYDRAC_CACHE", "XDG_CACHE_HOME", "HOME"}) {
      const char* value = ::getenv(name);
      before_[name] = value ? std::optional<std::string>(value) : std::nullopt;
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }
  static void set(const char* name, const fs::path& value) { ::setenv(name, value.c_str(), 1); }
  // Of a folder that is not used: a private one, and the words of the warning.
  static std::string warning() {
    testing::internal::CaptureStderr();
    const fs::path given = cache_dir();
    EXPECT_EQ(mode_of(given), 0700);
    EXPECT_TRUE(given.filename().string().starts_with("hydrac-")) << given;
    return testing::internal::GetCapturedStderr();
  }
  static int mode_of(const fs::path& dir) {
    struct stat info {};
    EXPECT_EQ(::stat(dir.c_str(), &info), 0) << dir;
    EXPECT_EQ(info.st_uid, ::geteuid());
    return info.st_mode & 0777;
  }

  TempDir folder_;
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(CacheDir, TheUsersOwnWishComesFirst) {
  set("HOME", folder_ / "home");
  EXPECT_EQ(cache_dir(), folder_ / "home/.cache/hydrac");
  set("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(cache_dir(), folder_ / "home/.cache/hydrac");
  set("XDG_CACHE_HOME", folder_ / "xdg");
  EXPECT_EQ(cache_dir(), folder_ / "xdg/hydrac");
  set("HYDRAC_CACHE", folder_ / "own");
  EXPECT_EQ(cache_dir(), folder_ / "own");
  for (const char* made : {"home/.cache/hydrac", "xdg/hydrac", "own"})
    EXPECT_EQ(mode_of(folder_ / made), 0700);
}

TEST_F(CacheDir, MayBeNamedFromTheWorkingFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  set("HYDRAC_CACHE", "near");
  EXPECT_EQ(std::filesystem::absolute(cache_dir()), std::filesystem::absolute("near"));
  std::filesystem::current_path(before);
  EXPECT_EQ(mode_of(folder_ / "near"), 0700);
}

TEST_F(CacheDir, WithoutAHomeItIsAPrivateOneOfThisProcess) {
  EXPECT_EQ(warning(), "");
  EXPECT_EQ(cache_dir(), cache_dir());
}

TEST_F(CacheDir, OneThatOthersMayWriteIsNotUsed) {
  set("HYDRAC_CACHE", folder_ / "shared");
  fs::create_directory(folder_ / "shared");
  for (const int mode : {0777, 0770, 01777}) {
    ASSERT_EQ(::chmod((folder_ / "shared").c_str(), mode), 0);
    const std::string words = warning();
    EXPECT_NE(words.find("is not used: others may write there (mode "), std::string::npos) << words;
  }
  ASSERT_EQ(::chmod((folder_ / "shared").c_str(), 0755), 0);
  EXPECT_EQ(cache_dir(), folder_ / "shared");
}

TEST_F(CacheDir, OneInAFolderThatAllMayChangeIsNotUsed) {
  fs::create_directory(folder_ / "open");
  ASSERT_EQ(::chmod((folder_ / "open").c_str(), 0777), 0);
  set("HYDRAC_CACHE", folder_ / "open/cache");
  EXPECT_NE(warning().find("open, which it lies in, may be changed by all (mode 0777)"), std::string::npos);
  ASSERT_EQ(::chmod((folder_ / "open").c_str(), 01777), 0);  // as /tmp is
  EXPECT_EQ(cache_dir(), folder_ / "open/cache");
}

TEST_F(CacheDir, OneOfAnotherUserIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directory(folder_ / "planted");
  ASSERT_EQ(::chown((folder_ / "planted").c_str(), 12345, 12345), 0);
  set("HYDRAC_CACHE", folder_ / "planted");
  EXPECT_NE(warning().find("it belongs to another user (uid 12345)"), std::string::npos);
  // Nor through a link, whoever made that.
  fs::create_symlink(folder_ / "planted", folder_ / "link");
  set("HYDRAC_CACHE", folder_ / "link");
  EXPECT_NE(warning().find("it belongs to another user (uid 12345)"), std::string::npos);
}

TEST_F(CacheDir, ALinkIsFollowedOnceAndForAll) {
  fs::create_directory(folder_ / "real");
  fs::create_symlink("real", folder_ / "link");
  set("HYDRAC_CACHE", folder_ / "link");
  EXPECT_EQ(cache_dir(), folder_ / "real");
  fs::create_symlink("loop", folder_ / "loop");
  set("HYDRAC_CACHE", folder_ / "loop");
  EXPECT_NE(warning().find("is not used: Too many levels of symbolic links"), std::string::npos);
}

TEST_F(CacheDir, OneThatCannotBeMadeIsDoneWithout) {
  test::spill(folder_ / "file", "");
  set("HOME", folder_ / "file");
  EXPECT_NE(warning().find("cannot be made (Not a directory), so nothing is remembered"), std::string::npos);
  set("HYDRAC_CACHE", folder_ / "file/cache");
  EXPECT_NE(warning().find("file/cache cannot be made (Not a directory)"), std::string::npos);
}

}  // namespace
}  // namespace hydrac::runtime
