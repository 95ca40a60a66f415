#include "runtime/base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace hydrac::runtime {
namespace {

namespace fs = std::filesystem;

class RegularFileTest : public testing::Test {
 protected:
  RegularFileTest() {
    std::string name = (fs::temp_directory_path() / "hydrac-base-XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
    std::ofstream(dir_ / "text") << "some text";
  }
  ~RegularFileTest() override { fs::remove_all(dir_); }
  fs::path dir_;
};

TEST_F(RegularFileTest, ReadsAFileAndOneThatALinkLeadsTo) {
  fs::create_symlink("text", dir_ / "link");
  for (const char* name : {"text", "link"}) {
    const RegularFile file(dir_ / name);
    std::string contents;
    EXPECT_EQ(file.problem(), "");
    EXPECT_EQ(file.size(), 9u);
    EXPECT_TRUE(file.read_all(contents));
    EXPECT_EQ(contents, "some text");
  }
  EXPECT_EQ(RegularFile(dir_ / "link", LastLink::refuse).problem(), "it is a symbolic link, no regular file");
}

TEST_F(RegularFileTest, ReadsNoMoreThanIsAskedFor) {
  std::string contents;
  EXPECT_TRUE(RegularFile(dir_ / "text").read_all(contents, 4));
  EXPECT_EQ(contents, "some");
}

TEST_F(RegularFileTest, RefusesWhatIsNoRegularFileWithoutOpeningIt) {
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);  // open() would wait for a writer
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{AF_UNIX, {}};
  std::strncpy(address.sun_path, (dir_ / "socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(RegularFile(dir_ / "pipe").problem(), "it is a pipe, no regular file");
  EXPECT_EQ(RegularFile(dir_ / "socket").problem(), "it is a socket, no regular file");
  EXPECT_EQ(RegularFile(dir_).problem(), "it is a folder");
  EXPECT_EQ(RegularFile("/dev/zero").problem(), "it is a device, no regular file");
  ::close(socket);
}

TEST_F(RegularFileTest, SaysWhatIsMissing) {
  const RegularFile missing(dir_ / "nothing");
  EXPECT_TRUE(missing.is_missing());
  EXPECT_EQ(missing.problem(), "No such file or directory");
  fs::create_symlink("loop", dir_ / "loop");
  const RegularFile loop(dir_ / "loop");
  EXPECT_FALSE(loop.is_missing());
  EXPECT_EQ(loop.problem(), "Too many levels of symbolic links");
}

}  // namespace
}  // namespace hydrac::runtime
