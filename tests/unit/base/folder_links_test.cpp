#include "runtime/base/folder_links.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "runtime/error.h"

namespace hydrac::runtime {
namespace {

namespace fs = std::filesystem;

class FolderLinksTest : public testing::Test {
 protected:
  FolderLinksTest() {
    std::string name = (fs::temp_directory_path() / "hydrac-links-XXXXXX").string();
    dir_ = fs::canonical(::mkdtemp(name.data()));
    std::ofstream(dir_ / "secret") << "not yours";
  }
  ~FolderLinksTest() override { fs::remove_all(dir_); }

  fs::path make(const char* name) {
    fs::create_directories(dir_ / name);
    return dir_ / name;
  }
  fs::path dir_;
};

TEST_F(FolderLinksTest, ALinkMayLeadToAFileBesideIt) {
  const fs::path folder = make("model");
  std::ofstream(folder / "a") << "a";
  fs::create_symlink("a", folder / "b");
  EXPECT_NO_THROW(require_own_files(folder));
  fs::create_directory_symlink(folder, dir_ / "shortcut");
  EXPECT_NO_THROW(require_own_files(dir_ / "shortcut"));
}

TEST_F(FolderLinksTest, ALinkOutOfTheFolderIsRefused) {
  const fs::path folder = make("model");
  fs::create_symlink("../secret", folder / "chat_template.jinja");
  try {
    require_own_files(folder);
    FAIL() << "the link was followed";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), (folder / "chat_template.jinja").string() +
                                " is a link that leads out of its folder, to " + (dir_ / "secret").string() +
                                ": put a copy in its place");
  }
}

TEST_F(FolderLinksTest, AFolderWithTheSameBeginningIsAnother) {
  make("model-2");
  std::ofstream(dir_ / "model-2" / "a") << "a";
  const fs::path folder = make("model");
  fs::create_symlink("../model-2/a", folder / "a");
  EXPECT_THROW(require_own_files(folder), InputError);
}

TEST_F(FolderLinksTest, ASnapshotOfHuggingFacesCacheHasItsBlobs) {
  const fs::path blobs = make("models--a--b/blobs"), snapshot = make("models--a--b/snapshots/0123");
  std::ofstream(blobs / "hash") << "{}";
  fs::create_symlink("../../blobs/hash", snapshot / "tokenizer_config.json");
  EXPECT_NO_THROW(require_own_files(snapshot));
  const fs::path other = make("models--c--d/blobs");
  std::ofstream(other / "hash") << "{}";
  fs::create_symlink("../../../models--c--d/blobs/hash", snapshot / "config.json");
  EXPECT_THROW(require_own_files(snapshot), InputError);
}

}  // namespace
}  // namespace hydrac::runtime
