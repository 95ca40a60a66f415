#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <set>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/error.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::Child;
using test::message_of;
using test::slurp;
using test::spill;
using test::tell;
using test::TempDir;

class CheckpointTest : public ::testing::Test {
 protected:
  void save(int64_t step, const std::string& text = "weights") {
    CheckpointWriter writer(run_, step);
    writer.add_file("config.json", "{}\n");
    writer.add_file("model.safetensors", [&](FileWriter& file) { file.write(text); });
    writer.commit();
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(run_))
      names.insert(entry.path().filename().string());
    return names;
  }

  // The reason for which find_latest passes over the only checkpoint, checkpoint-7.
  std::string rejection() const {
    const CheckpointSearch search = find_latest(run_);
    EXPECT_FALSE(search.latest);
    if (search.rejected.size() != 1) return "not one rejected";
    EXPECT_EQ(search.rejected[0].dir, run_ / "checkpoint-7");
    return search.rejected[0].reason;
  }

  TempDir dir_;
  std::filesystem::path run_ = dir_ / "run";
};

TEST_F(CheckpointTest, IsAFolderWithAManifestOfItsFiles) {
  save(7);
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-7"}));
  EXPECT_EQ(slurp(run_ / "checkpoint-7/model.safetensors"), "weights");
  EXPECT_EQ(slurp(run_ / "checkpoint-7/manifest.json"), R"({
  "format": "hydrac-checkpoint-1",
  "step": 7,
  "files": [
    {
      "name": "config.json",
      "bytes": 3,
      "crc32c": 4028603687
    },
    {
      "name": "model.safetensors",
      "bytes": 7,
      "crc32c": 2453580357
    }
  ]
}
)");
  EXPECT_EQ(checkpoint_damage(run_ / "checkpoint-7"), "");
}

TEST_F(CheckpointTest, TheLatestIsTheOneOfTheHighestStep) {
  EXPECT_FALSE(find_latest(run_).latest);
  for (const int64_t step : {9, 100, 20}) save(step);
  const CheckpointSearch search = find_latest(run_);
  ASSERT_TRUE(search.latest);
  EXPECT_EQ(search.latest->step, 100);
  EXPECT_EQ(search.latest->dir, run_ / "checkpoint-100");
  EXPECT_TRUE(search.rejected.empty());
}

TEST_F(CheckpointTest, DamagedOnesArePassedOverWithTheReason) {
  save(5);
  save(6);
  spill(run_ / "checkpoint-6/model.safetensors", "weightz");
  std::filesystem::create_directory(run_ / "checkpoint-9");
  const CheckpointSearch search = find_latest(run_);
  ASSERT_TRUE(search.latest);
  EXPECT_EQ(search.latest->step, 5);
  ASSERT_EQ(search.rejected.size(), 2U);
  EXPECT_EQ(search.rejected[0].dir, run_ / "checkpoint-9");
  EXPECT_EQ(search.rejected[0].reason, "it has no manifest.json, so it was never completed");
  EXPECT_EQ(search.rejected[1].dir, run_ / "checkpoint-6");
  EXPECT_EQ(search.rejected[1].reason,
            "model.safetensors has the checksum ea8c7189, the manifest says 923eaa45");
  EXPECT_TRUE(std::filesystem::exists(run_ / "checkpoint-6")) << "searching removes nothing";
}

TEST_F(CheckpointTest, EveryKindOfDamageHasItsReason) {
  save(7);
  const std::filesystem::path at = run_ / "checkpoint-7";
  const std::string manifest = slurp(at / "manifest.json");
  spill(at / "model.safetensors", "weight");
  EXPECT_EQ(rejection(), "model.safetensors has 6 bytes, the manifest says 7");
  std::filesystem::remove(at / "model.safetensors");
  EXPECT_EQ(rejection(), "model.safetensors cannot be read: No such file or directory");
  std::filesystem::create_directory(at / "model.safetensors");
  EXPECT_EQ(rejection(), "model.safetensors is no regular file");
  std::filesystem::remove(at / "manifest.json");
  std::filesystem::create_symlink("manifest.json", at / "manifest.json");
  EXPECT_EQ(rejection(), "manifest.json cannot be read: Too many levels of symbolic links");
  std::filesystem::remove(at / "manifest.json");
  for (const size_t cut : {size_t{0}, size_t{1}, manifest.size() / 2, manifest.size() - 3}) {
    spill(at / "manifest.json", manifest.substr(0, cut));
    EXPECT_EQ(rejection(), "its manifest.json is damaged") << cut;
  }
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"checkpoint-1\"", "checkpoint-2\""},
                                                        {"\"step\": 7", "\"step\": -7"},
                                                        {"\"step\": 7", "\"step\": 18446744073709551615"},
                                                        {"config.json", "../../secret"},
                                                        {"\"bytes\": 3", "\"bytes\": \"3\""},
                                                        {"\"name\"", "\"nom\""},
                                                        {"4028603687", "402860368700"},
                                                        {"[", "{\"x\":["}}) {
    std::string changed = manifest;
    changed.replace(changed.find(from), from.size(), to);
    spill(at / "manifest.json", changed);
    EXPECT_EQ(rejection(), "its manifest.json is damaged") << to;
  }
  spill(at / "manifest.json", std::string(manifest).replace(manifest.find("\"step\": 7"), 9, "\"step\": 8"));
  EXPECT_EQ(rejection(), "its manifest.json is of step 8");
}

TEST_F(CheckpointTest, OtherNamesAreNotCheckpoints) {
  save(7);
  for (const char* name : {"checkpoint-08", "checkpoint--9", "checkpoint-+9", "checkpoint-", "checkpoint-9x",
                           "checkpoint-99999999999999999999", "checkpoint-9.backup"}) {
    std::filesystem::copy(run_ / "checkpoint-7", run_ / name);
  }
  spill(run_ / "checkpoint-10", "a file");
  EXPECT_TRUE(clean_leftovers(run_).empty());
  EXPECT_EQ(find_latest(run_).latest->step, 7);
  EXPECT_TRUE(find_latest(run_).rejected.empty());
  EXPECT_EQ(names().size(), 9U);
}

TEST_F(CheckpointTest, WithoutCommitNothingIsLeft) {
  save(5);
  {
    CheckpointWriter writer(run_, 6);
    writer.add_file("config.json", "{}");
    EXPECT_EQ(names().size(), 2U);
  }
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-5"}));
}

TEST_F(CheckpointTest, AFailingCallbackRemovesWhatWasWritten) {
  save(5);
  CheckpointWriter writer(run_, 6);
  writer.add_file("config.json", "{}");
  EXPECT_EQ(message_of<RunError>([&] {
              writer.add_file("model.safetensors", [](FileWriter&) { throw RunError("device lost"); });
            }),
            "device lost");
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-5"}));
  EXPECT_EQ(message_of<std::logic_error>([&] { writer.commit(); }),
            "CheckpointWriter used after commit or a failure");
}

TEST_F(CheckpointTest, AnOlderOneOfTheSameStepIsReplaced) {
  save(5, "first");
  save(5, "second");
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-5"}));
  EXPECT_EQ(slurp(run_ / "checkpoint-5/model.safetensors"), "second");
  EXPECT_EQ(find_latest(run_).latest->step, 5);
}

TEST_F(CheckpointTest, FileNamesThatCannotBe) {
  CheckpointWriter writer(run_, 5);
  writer.add_file("a", "1");
  for (const char* name : {"", ".hidden", "..", "sub/file", "manifest.json", "a", "new\nline"}) {
    EXPECT_EQ(message_of<std::logic_error>([&] { writer.add_file(name, "2"); }),
              std::string("a checkpoint cannot have a file called ") + name);
  }
  EXPECT_EQ(message_of<std::logic_error>([&] { CheckpointWriter negative(run_, -1); }),
            "checkpoint of step -1");
}

TEST_F(CheckpointTest, OldOnesGoWhenThereAreMoreThanTheLimit) {
  for (const int64_t step : {1, 2, 3, 4}) save(step);
  remove_old_checkpoints(run_, 0);
  EXPECT_EQ(names().size(), 4U);
  remove_old_checkpoints(run_, 2);
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-3", "checkpoint-4"}));
}

TEST_F(CheckpointTest, AnIncompleteOneDoesNotCountTowardsTheLimit) {
  for (const int64_t step : {1, 2, 3}) save(step);
  std::filesystem::remove(run_ / "checkpoint-3/manifest.json");
  spill(run_ / "checkpoint-2/model.safetensors", "short");
  remove_old_checkpoints(run_, 1);
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-1", "checkpoint-2", "checkpoint-3"}));
  EXPECT_EQ(find_latest(run_).latest->step, 1);
}

TEST_F(CheckpointTest, LeftoversOfKilledRunsAreCleaned) {
  save(5);
  std::filesystem::create_directory(run_ / "checkpoint-6.tmp-123");
  spill(run_ / "checkpoint-6.tmp-123/model.safetensors", "half");
  std::filesystem::copy(run_ / "checkpoint-5", run_ / "checkpoint-4.old-123");
  std::filesystem::copy(run_ / "checkpoint-5", run_ / "checkpoint-5.tmp-9");  // swapped out, not yet removed
  EXPECT_EQ(clean_leftovers(run_),
            (std::vector<std::string>{
                "removed " + (run_ / "checkpoint-6.tmp-123").string() + ", left by a killed run",
                "removed " + (run_ / "checkpoint-5.tmp-9").string() + ", left by a killed run",
                "removed " + (run_ / "checkpoint-4.old-123").string() + ", left by a killed run"}));
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-5"}));
  EXPECT_TRUE(clean_leftovers(run_).empty());
  EXPECT_TRUE(clean_leftovers(dir_ / "nothing").empty());
}

TEST_F(CheckpointTest, ACompleteLeftoverGetsItsName) {
  save(5);
  std::filesystem::rename(run_ / "checkpoint-5", run_ / "checkpoint-5.tmp-123");
  EXPECT_EQ(clean_leftovers(run_), (std::vector<std::string>{"finished " + (run_ / "checkpoint-5").string() +
                                                             ", which a killed run had written"}));
  EXPECT_EQ(find_latest(run_).latest->step, 5);
  // Also when a damaged one is in its place.
  std::filesystem::copy(run_ / "checkpoint-5", run_ / "checkpoint-5.tmp-123");
  spill(run_ / "checkpoint-5/model.safetensors", "");
  clean_leftovers(run_);
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-5"}));
  EXPECT_EQ(find_latest(run_).latest->step, 5);
}

TEST_F(CheckpointTest, ARunFolderThatIsAFileIsSaid) {
  spill(run_, "text");
  EXPECT_EQ(message_of<RunError>([&] { save(1); }),
            "cannot create the folder " + run_.string() + ": Not a directory");
  EXPECT_EQ(message_of<InputError>([&] { find_latest(run_); }),
            "cannot list " + run_.string() + ": Not a directory");
}

TEST_F(CheckpointTest, OutOfSpaceLeavesTheOldOneAndNothingElse) {
  save(5);
  Child child([&](int pipe) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    tell(pipe, message_of<RunError>([&] { save(6, std::string(3 << 20, 'x')); }));
    tell(pipe, std::string("|").append(std::to_string(::getpid())));
  });
  const std::string said = child.read();
  ASSERT_EQ(child.wait(), 0);
  const size_t bar = said.find('|');
  EXPECT_EQ(said.substr(0, bar),
            "cannot write " +
                (run_ / ("checkpoint-6.tmp-" + said.substr(bar + 1)) / "model.safetensors").string() +
                ": File too large; raise the limit on file sizes (ulimit -f) or set output.dir to a folder "
                "on another file system");
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-5"}));
  EXPECT_EQ(find_latest(run_).latest->step, 5);
}

TEST_F(CheckpointTest, AReadOnlyFolderIsSaidAndLeftAlone) {
  save(5);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(run_.c_str(), 0555), 0);
  Child child([&](int pipe) {
    constexpr uid_t nobody = 65534;
    if (::getuid() == 0 && ::setuid(nobody) != 0) ::_exit(97);
    tell(pipe, message_of<RunError>([&] { save(6); }).append("|").append(std::to_string(::getpid())));
  });
  const std::string said = child.read();
  ASSERT_EQ(child.wait(), 0);
  ASSERT_EQ(::chmod(run_.c_str(), 0755), 0);
  const size_t bar = said.find('|');
  EXPECT_EQ(said.substr(0, bar), "cannot create the folder " +
                                     (run_ / ("checkpoint-6.tmp-" + said.substr(bar + 1))).string() +
                                     ": Permission denied; set output.dir to a folder that may be written");
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-5"}));
}

}  // namespace
}  // namespace hydrac::runtime
