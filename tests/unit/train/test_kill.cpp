// kill -9 at random moments, again and again, then resume: the run ends as if it had never been interrupted.
#include <gtest/gtest.h>

#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "tests/unit/support/child.h"
#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::Child;
using test::TempDir;

// Slow enough for several kills a run; saves and records as often as possible.
TrainOptions busy_run(const std::filesystem::path& run_dir) {
  TrainOptions options = small_run(run_dir);
  options.max_steps = 60;
  options.save_steps = 2;
  options.save_total_limit = 2;
  options.log_steps = 1;
  return options;
}

FakeProgram slow(int64_t depth) {
  FakeProgram program;
  program.depth = depth;
  program.lazy = true;
  program.in_update = [](int64_t) { std::this_thread::sleep_for(std::chrono::microseconds(300)); };
  return program;
}

// The kernel ends this process by then, however busy the machine and whoever else is.
void be_killed_after(std::chrono::microseconds time) {
  const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = time.count()}};
  std::signal(SIGALRM, SIG_DFL);
  if (::setitimer(ITIMER_REAL, &timer, nullptr) != 0) ::_exit(97);
}

TEST(KilledWhileTraining, ResumesToTheSameEnd) {
  const TempDir dir;
  run(busy_run(dir / "whole"));
  std::mt19937 random(5);
  int kills = 0, resumed = 0;
  for (int round = 0; round < 6; ++round) {
    const std::filesystem::path run_dir = dir / ("run" + std::to_string(round));
    int patience = 20'000;  // microseconds; grows, so that a slow disk does not keep the run from its end
    for (bool done = false; !done; patience = std::min(patience * 5 / 4, 900'000)) {
      // What a user does: continue what is there, begin where nothing is.
      TrainOptions options = busy_run(run_dir);
      options.resume = Resume::if_possible;
      resumed += std::filesystem::exists(run_dir / "metrics.jsonl");
      const std::chrono::microseconds life(1000 + random() % patience);
      Child child([&](int) {
        be_killed_after(life);
        run(options, slow(1 + round % 3));
      });
      const int end = child.wait();
      ASSERT_TRUE(end == 0 || end == 1000 + SIGALRM) << "the session failed";
      done = end == 0;
      kills += !done;
    }
    expect_same_end(dir / "whole", run_dir, 60);
    EXPECT_EQ(names_in(run_dir).front(), "checkpoint-58");
    for (const std::string& name : names_in(run_dir)) {
      const bool half_done = name.starts_with("checkpoint-") && name.find('.') != std::string::npos;
      EXPECT_FALSE(half_done) << name;
    }
  }
  EXPECT_GE(kills, 6) << "the children lived too long to be killed";
  EXPECT_GE(resumed, 6);
}

}  // namespace
}  // namespace hydrac::runtime
