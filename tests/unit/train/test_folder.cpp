// The run's folder: what an earlier run there becomes, who may train in it, and folders that cannot be used.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "runtime/train/run/run_folder.h"
#include "runtime/train/run/run_start.h"
#include "tests/unit/support/child.h"
#include "train_test.h"

namespace hydrac::runtime {
namespace {

namespace fs = std::filesystem;
using test::Child;
using test::message_of;
using test::slurp;
using test::spill;
using test::tell;
using test::TempDir;
using Names = std::vector<std::string>;

TEST(RunFolderTest, TheSameCommandWorksAgainAndTheEarlierRunsStay) {
  const TempDir dir;
  const std::string here = (dir / "run").string();
  TrainOptions options = small_run(here);
  run(options);
  const auto first = checkpoint_contents(here, 12);
  const std::string metrics = slurp(here + "/metrics.jsonl");
  spill(here + "/notes.txt", "mine");
  const Printed printed;
  options.quiet = false;
  options.out = printed.file();
  check_run(options);
  run(options);
  EXPECT_EQ(printed.text().substr(0, printed.text().find('\n')),
            "moved the earlier run in " + here + " to " + here + ".1; --resume would have continued it");
  options.quiet = true;
  options.max_steps = 3;
  run(options);
  EXPECT_EQ(names_in(dir.path()), (Names{"run", "run.1", "run.2"}));
  EXPECT_EQ(checkpoint_contents(here + ".1", 12), first);
  EXPECT_EQ(slurp(here + ".1/metrics.jsonl"), metrics);
  EXPECT_EQ(names_in(here + ".1"),
            (Names{"checkpoint-10", "checkpoint-12", "checkpoint-5", "events.out.tfevents.0000000000.hydrac",
                   "metrics.jsonl", "spec.yaml"}));
  expect_same_end(here + ".1", here + ".2");
  EXPECT_EQ(names_in(here), (Names{"checkpoint-3", "events.out.tfevents.0000000000.hydrac", "metrics.jsonl",
                                   "notes.txt", "spec.yaml"}));
  EXPECT_EQ(slurp(here + "/notes.txt"), "mine");
}

TEST(RunFolderTest, AnEmptyFolderOrOneOfOtherFilesIsUsedAsItIs) {
  const TempDir dir;
  fs::create_directory(dir / "run");
  spill(dir / "run/notes.txt", "mine");
  run(small_run(dir / "run"));
  EXPECT_EQ(slurp(dir / "run/notes.txt"), "mine");
  EXPECT_EQ(names_in(dir.path()), Names{"run"});
}

TEST(RunFolderTest, ARunKilledBeforeItsFirstRecordLeavesNothingToKeep) {
  const TempDir dir;
  fs::create_directory(dir / "run");
  spill(dir / "run/metrics.jsonl", "");
  spill(dir / "run/spec.yaml", "old");
  run(small_run(dir / "run"));
  EXPECT_EQ(slurp(dir / "run/spec.yaml"), "name: fake\n");
  EXPECT_EQ(names_in(dir.path()), Names{"run"});
}

// What the user has under a name that a run needs, and in it a file.
struct Clash {
  const char* name;
  const char* file;
};

TEST(RunFolderTest, FilesOfTheUsersAreNotOverwritten) {
  for (const Clash& clash :
       {Clash{"spec.yaml", ""}, Clash{"metrics.jsonl", ""}, Clash{"checkpoint-5", "/model.safetensors"},
        Clash{"checkpoint-best", "/model.safetensors"}}) {
    const TempDir dir;
    fs::create_directories(dir / "run" / (*clash.file ? clash.name : ""));
    const fs::path mine = (dir / "run" / clash.name).string() + clash.file;
    spill(mine, "{\"loss\": 3}\n");
    const TrainOptions options = small_run(dir / "run");
    const std::string expected = (dir / "run" / clash.name).string() +
                                 " exists and belongs to no run, which would overwrite it; set output.dir to "
                                 "another folder, or rename it";
    EXPECT_EQ(message_of<InputError>([&] { run(options); }), expected);
    EXPECT_EQ(message_of<InputError>([&] { check_run(options); }), expected);
    EXPECT_EQ(slurp(mine), "{\"loss\": 3}\n");
    EXPECT_EQ(names_in(dir / "run"), Names{clash.name});
  }
}

TEST(RunFolderTest, VersionControlsOwnFoldersAreRefusedAlsoBehindLinks) {
  const TempDir dir;
  fs::create_directories(dir / "repository/.git/hooks");
  fs::create_directory_symlink(dir / "repository/.git", dir / "link");
  for (const char* inside :
       {"repository/.git", "repository/.git/hooks", "repository/.git/new/run", "link/run"}) {
    const TrainOptions options = small_run(dir / inside);
    const std::string expected =
        (dir / inside).string() +
        " is a part of .git, which belongs to version control; set output.dir to another folder";
    EXPECT_EQ(message_of<InputError>([&] { run(options); }), expected);
    EXPECT_EQ(message_of<InputError>([&] { check_run(options); }), expected);
  }
  EXPECT_EQ(names_in(dir / "repository/.git"), Names{"hooks"});
  EXPECT_TRUE(names_in(dir / "repository/.git/hooks").empty());
}

TEST(RunFolderTest, AShortFileOfTheUsersIsNoRecordThatWasCutOff) {
  const TempDir dir;
  fs::create_directory(dir / "run");
  const TrainOptions options = small_run(dir / "run");
  spill(dir / "run/metrics.jsonl", "mine\n");
  EXPECT_NE(message_of<InputError>([&] { run(options); }).find("exists and belongs to no run"),
            std::string::npos);
  EXPECT_EQ(slurp(dir / "run/metrics.jsonl"), "mine\n");
  spill(dir / "run/metrics.jsonl", "{\"ste");
  run(options);
  EXPECT_EQ(names_in(dir.path()), (Names{"run", "run.1"}));
}

TEST(RunFolderTest, ARunWithinACheckpointIsRefusedAlsoBehindLinks) {
  const TempDir dir;
  run(small_run(dir / "run"));
  const Names before = names_in(dir / "run/checkpoint-5");
  fs::create_directory_symlink(dir / "run/checkpoint-5", dir / "link");
  for (const char* inside : {"run/checkpoint-5", "run/checkpoint-5/new", "link/new"}) {
    const TrainOptions options = small_run(dir / inside);
    const std::string expected =
        (dir / inside).string() + " lies in the checkpoint checkpoint-5; set output.dir to another folder";
    EXPECT_EQ(message_of<InputError>([&] { run(options); }), expected);
    EXPECT_EQ(message_of<InputError>([&] { check_run(options); }), expected);
  }
  EXPECT_EQ(names_in(dir / "run/checkpoint-5"), before);
}

TEST(RunFolderTest, AFolderMovedWhileTrainingIsSavedWhereItIs) {
  const TempDir dir;
  run(small_run(dir / "whole"));
  FakeProgram program;
  program.in_update = [&](int64_t step) {
    if (step == 7) fs::rename(dir / "run", dir / "moved");
  };
  const TrainOptions options = small_run(dir / "run");
  const std::string now = (dir / "moved").string();
  EXPECT_EQ(message_of<RunError>([&] { run(options, std::move(program)); }),
            (dir / "run").string() + " was moved to " + now + " while it was trained in; " + now +
                "/checkpoint-8 is saved, --resume output.dir=" + now + " continues it");
  EXPECT_EQ(names_in(dir.path()), (Names{"moved", "whole"}));
  EXPECT_EQ(resume(small_run(dir / "moved")).first_step, 8);
  expect_same_end(dir / "whole", dir / "moved");
}

// Another run has taken the name when this one saves.
TEST(RunFolderTest, AFolderMovedWhileSavingIsSavedWhereItIs) {
  const TempDir dir;
  run(small_run(dir / "whole"));
  FakeProgram program;
  program.in_download = [&](int64_t step) {
    if (step != 5 || fs::exists(dir / "moved")) return;
    fs::rename(dir / "run", dir / "moved");
    fs::create_directory(dir / "run");
    spill(dir / "run/notes.txt", "mine");
  };
  const std::string message = message_of<RunError>([&] { run(small_run(dir / "run"), std::move(program)); });
  EXPECT_NE(message.find((dir / "moved/checkpoint-5").string() + " is saved"), std::string::npos) << message;
  EXPECT_EQ(names_in(dir / "run"), Names{"notes.txt"});
  resume(small_run(dir / "moved"));
  expect_same_end(dir / "whole", dir / "moved");
}

TEST(RunFolderTest, AFolderRemovedWhileTrainingEndsTheRun) {
  const TempDir dir;
  FakeProgram program;
  program.in_update = [&](int64_t step) {
    if (step == 7) fs::remove_all(dir / "run");
  };
  EXPECT_EQ(message_of<RunError>([&] { run(small_run(dir / "run"), std::move(program)); }),
            (dir / "run").string() + " was removed while it was trained in, with all that was saved there");
  EXPECT_TRUE(names_in(dir.path()).empty());
}

TEST(RunFolderTest, ATrailingSlashAndALinkNameTheSameFolder) {
  const TempDir dir;
  fs::create_directory(dir / "disk");
  fs::create_directory_symlink("disk", dir / "run");
  run(small_run((dir / "run").string() + "/"));
  run(small_run((dir / "run").string() + "/"));
  EXPECT_EQ(names_in(dir.path()), (Names{"disk", "disk.1", "run"}));
  EXPECT_TRUE(fs::is_symlink(dir / "run"));
  expect_same_end(dir / "disk.1", dir / "run");
}

TEST(RunFolderTest, TheWorkingDirectoryIsNotMovedAway) {
  const TempDir dir;
  run(small_run(dir / "run"));
  const fs::path before = fs::current_path();
  fs::create_directory(dir / "run/sub");
  for (const char* where : {"run", "run/sub"}) {
    fs::current_path(dir / where);
    const std::string message = message_of<InputError>([&] { run(small_run(dir / "run")); });
    const std::string check = message_of<InputError>([&] { check_run(small_run(dir / "run")); });
    fs::current_path(before);
    EXPECT_EQ(
        message,
        (dir / "run").string() +
            " holds an earlier run and cannot be moved aside, because it is or holds the working directory; "
            "continue that run with --resume, or set output.dir to another folder");
    EXPECT_EQ(check, message);
  }
  EXPECT_EQ(names_in(dir.path()), Names{"run"});
}

TEST(RunFolderTest, TwoProcessesDoNotTrainInOneFolder) {
  const TempDir dir;
  TrainOptions options = small_run(dir / "run");
  Child child([&](int pipe) {
    FakeProgram program;
    program.in_update = [&](int64_t step) {
      if (step == 6) tell(pipe, "6");
      while (step == 6) ::usleep(1000);
    };
    run(options, std::move(program));
  });
  ASSERT_EQ(child.read(1), "6");
  const std::string expected = "another process is training in " + (dir / "run").string() +
                               "; wait for it to end, or set output.dir to another folder";
  EXPECT_EQ(message_of<InputError>([&] { run(options); }), expected);
  EXPECT_EQ(message_of<InputError>([&] { resume(options); }), expected);
  EXPECT_EQ(message_of<InputError>([&] { check_run(options); }), expected);
  child.send(SIGKILL);
  child.wait();
  EXPECT_EQ(resume(options).first_step, 5);
}

TEST(RunFolderTest, AFileInTheFoldersPlaceIsAnError) {
  const TempDir dir;
  spill(dir / "run", "a file");
  EXPECT_EQ(message_of<RunError>([&] { run(small_run(dir / "run")); }),
            "cannot create the folder " + (dir / "run").string() + ": Not a directory");
  EXPECT_EQ(slurp(dir / "run"), "a file");
}

// What `body` throws as a RunError, said by a process of its own.
std::string run_error_in_child(const std::function<void()>& body) {
  Child child([&](int pipe) { tell(pipe, message_of<RunError>(body)); });
  const std::string message = child.read();
  EXPECT_EQ(child.wait(), 0);
  return message;
}

TEST(RunFolderTest, AReadOnlyFolderIsAnErrorThatSaysWhatToSet) {
  const TempDir dir;
  fs::create_directory(dir / "closed");
  fs::permissions(dir / "closed", fs::perms{0555});
  fs::permissions(dir.path(), fs::perms{0755});
  const auto without_rights = [&](const fs::path& run_dir) {
    return run_error_in_child([&] {
      if (::geteuid() == 0 && ::setuid(65534) != 0) throw std::runtime_error("setuid failed");
      run(small_run(run_dir));
    });
  };
  EXPECT_EQ(without_rights(dir / "closed/run"),
            "cannot create the folder " + (dir / "closed/run").string() +
                ": Permission denied; set output.dir to a folder that may be written");
  EXPECT_EQ(without_rights(dir / "closed"),
            "cannot open " + (dir / "closed/metrics.jsonl").string() +
                ": Permission denied; set output.dir to a folder that may be written");
  fs::permissions(dir / "closed", fs::perms::owner_all);
}

// A limit on file sizes stands for a full disk: both show as a failing write.
TEST(RunFolderTest, AFullDiskKeepsTheLastCheckpointAndTheRunCanGoOn) {
  const TempDir dir;
  run(small_run(dir / "whole"));
  TrainOptions options = small_run(dir / "run");
  const std::string message = run_error_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    FakeProgram program;
    program.in_update = [](int64_t step) {
      const rlimit limit{step >= 9 ? 300u : 1u << 20, 1u << 20};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("setrlimit failed");
    };
    run(options, std::move(program));
  });
  EXPECT_EQ(message, "cannot write " + (dir / "run/metrics.jsonl").string() +
                         ": File too large; raise the limit on file sizes (ulimit -f) or set output.dir to a "
                         "folder on another file system\nthe newest checkpoint is " +
                         (dir / "run/checkpoint-5").string());
  EXPECT_EQ(resume(options).first_step, 5);
  expect_same_end(dir / "whole", dir / "run");
}

}  // namespace
}  // namespace hydrac::runtime
