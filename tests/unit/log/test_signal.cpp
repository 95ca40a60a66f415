#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "runtime/log/signal.h"
#include "tests/unit/support/child.h"

namespace hydrac::runtime {
namespace {

using test::Child;
using test::tell;

// A run that would go on for ever: says "r" when it can be signalled, "s" when it has seen the stop; with
// `stubborn` it then takes its time over the last step. Its stderr goes to the pipe as well.
Child run(bool stubborn) {
  return Child([stubborn](int pipe) {
    ::dup2(pipe, STDERR_FILENO);
    install_stop_handlers();
    if (stop_requested()) ::_exit(96);
    tell(pipe, "r");
    while (!stop_requested()) ::usleep(500);
    tell(pipe, "s");
    while (stubborn) ::usleep(500);
  });
}

const std::string notice = "\nstopping after this step; once more to stop at once\n";

TEST(StopSignals, TheFirstOneAsksAndTheRunEndsByItself) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Child child = run(false);
    EXPECT_EQ(child.read(1), "r");
    child.send(signal);
    EXPECT_EQ(child.read(), notice + "s");
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST(StopSignals, TheSecondOneEndsItAtOnceWith130) {
  Child child = run(true);
  EXPECT_EQ(child.read(1), "r");
  child.send(SIGINT);
  EXPECT_EQ(child.read(notice.size() + 1), notice + "s");
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 130);
}

}  // namespace
}  // namespace hydrac::runtime
