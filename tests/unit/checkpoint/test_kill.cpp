// kill -9 at random moments of saving: whatever the moment, a complete checkpoint is found, and none that
// commit() had returned for is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::Child;
using test::slurp;
using test::tell;
using test::TempDir;

std::string contents(const std::string& file, int64_t step, char generation) {
  return std::string(100'000 + static_cast<size_t>(step % 7) * 1000, generation) + file +
         std::to_string(step);
}

const std::vector<std::string> file_names{"config.json", "model.safetensors", "optimizer.safetensors"};

void save(const std::filesystem::path& run, int64_t step, char generation) {
  CheckpointWriter writer(run, step);
  for (const std::string& name : file_names) writer.add_file(name, contents(name, step, generation));
  writer.commit();
}

// The files' first byte, which all of them must share.
char check_contents(const Checkpoint& checkpoint) {
  const char generation = slurp(checkpoint.dir / file_names[0])[0];
  for (const std::string& name : file_names) {
    EXPECT_TRUE(slurp(checkpoint.dir / name) == contents(name, checkpoint.step, generation))
        << checkpoint.dir / name;
  }
  return generation;
}

void kill_soon(Child& child, std::mt19937& random) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 50'000));
  child.send(SIGKILL);
  EXPECT_EQ(child.wait(), 1000 + SIGKILL);
}

size_t entries(const std::filesystem::path& dir) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir), {}));
}

TEST(KilledWhileSaving, NothingThatWasCommittedIsLost) {
  const TempDir dir;
  std::mt19937 random(7);
  int64_t latest = 0, leftovers = 0;
  save(dir.path(), 0, 'x');
  for (int round = 0; round < 80; ++round) {
    Child child([&](int pipe) {
      for (int64_t step = latest + 1;; ++step) {
        save(dir.path(), step, 'x');
        tell(pipe, "c");
        remove_old_checkpoints(dir.path(), 2);
      }
    });
    kill_soon(child, random);
    const int64_t committed = latest + static_cast<int64_t>(child.read().size());
    const CheckpointSearch before = find_latest(dir.path());
    ASSERT_TRUE(before.latest);
    EXPECT_TRUE(before.rejected.empty()) << before.rejected[0].reason;
    EXPECT_GE(before.latest->step, committed);
    check_contents(*before.latest);

    leftovers += static_cast<int64_t>(clean_leftovers(dir.path()).size());
    latest = find_latest(dir.path()).latest->step;
    EXPECT_GE(latest, before.latest->step);
    remove_old_checkpoints(dir.path(), 2);
    EXPECT_EQ(entries(dir.path()), std::min<size_t>(2, static_cast<size_t>(latest) + 1))
        << "leftovers remained";
  }
  EXPECT_GT(latest, 0) << "no child lived long enough to save";
  EXPECT_GT(leftovers, 0) << "no child was killed while it saved";
}

TEST(KilledWhileSaving, ReplacingAStepNeverLeavesAMomentWithoutIt) {
  const TempDir dir;
  std::mt19937 random(11);
  save(dir.path(), 3, 'a');
  for (int round = 0; round < 40; ++round) {
    Child child([&](int) {
      for (char generation = 'a';; generation = generation == 'z' ? 'a' : static_cast<char>(generation + 1)) {
        save(dir.path(), 3, generation);
      }
    });
    kill_soon(child, random);
    const CheckpointSearch search = find_latest(dir.path());
    ASSERT_TRUE(search.latest);
    EXPECT_TRUE(search.rejected.empty());
    check_contents(*search.latest);
    clean_leftovers(dir.path());
    EXPECT_EQ(entries(dir.path()), 1U);
  }
}

}  // namespace
}  // namespace hydrac::runtime
