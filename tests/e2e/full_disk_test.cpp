// Files that cannot be written as a whole, as on a full disk: what is said, and what is left.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <map>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

// While it lives, no file that a process started here writes can be longer. That is the error of a full disk
// by another name, which needs no disk of its own.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : ignored_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, ignored_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  void (*ignored_)(int);
  rlimit before_{};
};

Outcome limited(const Workplace& place, const Words& words) {
  const FileLimit limit(1000);  // what is printed about it is shorter
  return place.run(words);
}

// Names and contents.
std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().lexically_relative(folder)] = slurp(entry.path());
  }
  return files;
}

constexpr const char* kTooLarge =
    ": File too large; raise the limit on file sizes (ulimit -f) or name a folder on another file system\n";

TEST(FullDisk, InitSaysWhatItCouldNotWrite) {
  const Workplace place;
  const Outcome outcome =
      limited(place, {"init", "--task", "char", "--data", "corpus.txt", "--for", "cpu", "-o", "new.yaml"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err, std::string("hydrac: init failed: cannot write new.yaml.tmp") + kTooLarge);
  EXPECT_FALSE(fs::exists(place / "new.yaml"));
  EXPECT_FALSE(fs::exists(place / "new.yaml.tmp"));
}

TEST(FullDisk, DataPrepareSaysWhatItCouldNotWrite) {
  const Workplace place;
  const Outcome outcome =
      limited(place, {"data", "prepare", "corpus.txt", "--tokenizer", "byte", "-o", "shards"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(outcome.err.starts_with("hydrac: data prepare failed: cannot write shards.hydrac-tmp/"))
      << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with(kTooLarge)) << outcome.err;
  EXPECT_FALSE(fs::exists(place / "shards"));
  EXPECT_FALSE(fs::exists(place / "shards.hydrac-tmp"));
}

TEST(FullDisk, ExportSaysWhatItCouldNotWrite) {
  const Workplace place;
  ASSERT_EQ(
      place.run({"-q", "base.yaml", "train.max_steps=2", "model.dropout=0", "model.attention_dropout=0"})
          .code,
      0);
  const Outcome outcome = limited(place, {"export", "runs/base", "-o", "model"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(
      outcome.err,
      std::string("hydrac: export failed: cannot write model.hydrac-tmp/model.safetensors") + kTooLarge);
  EXPECT_FALSE(fs::exists(place / "model"));
  EXPECT_FALSE(fs::exists(place / "model.hydrac-tmp"));
}

// What is in the way of a second try would be a file without a reply.
TEST(FullDisk, SampleLeavesNoFileWithoutReplies) {
  const Workplace place;
  ASSERT_EQ(place.run({"-q", "base.yaml", "train.max_steps=2"}).code, 0);
  std::string prompts;
  for (int i = 0; i < 40; ++i) prompts += "{\"prompt\": \"line " + std::to_string(i) + "\"}\n";
  spill(place / "prompts.jsonl", prompts);
  const Words sample = {"sample",           "runs/base", "-q",     "--threads",    "1",
                        "--max-new-tokens", "4",         "--file", "prompts.jsonl"};
  ASSERT_EQ(place.run(with(sample, {"-o", "first.jsonl"})).code, 0);  // its kernels are compiled
  const Words words = with(sample, {"-o", "replies.jsonl"});
  {
    const FileLimit limit(10);
    EXPECT_EQ(place.run(words).code, 3);
  }
  EXPECT_FALSE(fs::exists(place / "replies.jsonl"));
  const Outcome outcome = limited(place, words);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err, std::string("hydrac: sample failed: cannot write replies.jsonl") + kTooLarge);
  const std::string whole = slurp(place / "first.jsonl"), left = slurp(place / "replies.jsonl");
  EXPECT_TRUE(left.ends_with("}]}\n") && whole.starts_with(left) && left.size() < whole.size()) << left;
}

TEST(FullDisk, EmitLeavesNoHalfFolder) {
  const Workplace place;
  const Outcome outcome = limited(place, {"emit", "base.yaml", "-o", "new/program"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(outcome.err.starts_with("hydrac: emit failed: cannot write new/program/")) << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with(kTooLarge)) << outcome.err;
  EXPECT_FALSE(fs::exists(place / "new"));
}

TEST(FullDisk, EmitLeavesAFolderAsItWas) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  spill(place / "program/kernels/block.cpp",
        slurp(place / "program/kernels/block.cpp") + "// hydrac: keep\n");
  const auto before = files_of(place / "program");
  const Outcome outcome = limited(place, {"emit", "base.yaml", "train.seed=7", "-o", "program"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_EQ(files_of(place / "program"), before);
  EXPECT_EQ(place.run({"diff", "base.yaml", "program"}).code, 0);
}

}  // namespace
}  // namespace hydrac::e2e
