#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

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
    std::signal(SIGHUP, SIG_DFL);  // also where the tests run under nohup
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
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Child child = run(false);
    EXPECT_EQ(child.read(1), "r");
    child.send(signal);
    EXPECT_EQ(child.read(), notice + "s");
    EXPECT_EQ(child.wait(), 0);
  }
}

// Sends the signal until it has ended the child; returns how it ended. A child that lives on ends with the
// test.
int send_until_it_ends(Child& child, int signal) {
  for (int left = 1000; left > 0 && !child.has_ended(); --left) {
    child.send(signal);
    ::usleep(10'000);
  }
  return child.wait();
}

TEST(StopSignals, ASecondOneEndsItAtOnceWith130) {
  Child child = run(true);
  EXPECT_EQ(child.read(1), "r");
  child.send(SIGINT);
  EXPECT_EQ(child.read(notice.size() + 1), notice + "s");
  EXPECT_EQ(send_until_it_ends(child, SIGTERM), kExitInterrupted);
}

// As `timeout` sends them: to the process and to its group.
TEST(StopSignals, TwoInOneMomentAreOne) {
  Child child([](int pipe) {
    ::dup2(pipe, STDERR_FILENO);
    install_stop_handlers();
    // Both wait, and come at once: no busy machine can part them.
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGTERM);
    sigaddset(&both, SIGINT);
    sigprocmask(SIG_BLOCK, &both, nullptr);
    std::raise(SIGTERM);
    std::raise(SIGINT);
    sigprocmask(SIG_UNBLOCK, &both, nullptr);
    tell(pipe, "saved");
  });
  EXPECT_EQ(child.read(), notice + "saved");
  EXPECT_EQ(child.wait(), 0);
}

TEST(StopSignals, AClosingTerminalMayHangUpAgainAndAgain) {
  Child child([](int pipe) {
    ::dup2(pipe, STDERR_FILENO);
    std::signal(SIGHUP, SIG_DFL);
    install_stop_handlers();
    std::raise(SIGHUP);
    const auto began = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - began < std::chrono::duration<double>(1.2 * kSameSignalSeconds))
      std::raise(SIGHUP);
    tell(pipe, "saved");
  });
  EXPECT_EQ(child.read(), notice + "saved");
  EXPECT_EQ(child.wait(), 0);
}

TEST(StopSignals, UnderNohupAHangupStopsNothing) {
  Child child([](int pipe) {
    std::signal(SIGHUP, SIG_IGN);
    install_stop_handlers();
    std::raise(SIGHUP);
    tell(pipe, stop_requested() ? "stopped" : "goes on");
  });
  EXPECT_EQ(child.read(), "goes on");
}

#if defined(__x86_64__) && defined(__linux__)
// Sends this thread a signal while the stack pointer is `pointer`, as generated code of libraries has it that
// uses it for its data.
void signal_with_stack_pointer(std::byte* pointer, int signal) {
  const auto process = static_cast<long>(::getpid()), thread = ::syscall(SYS_gettid);
  long result = SYS_tgkill;
  asm volatile(
      "mov %%rsp, %%rbx\n\t"
      "mov %[pointer], %%rsp\n\t"
      "syscall\n\t"
      "mov %%rbx, %%rsp"
      : "+a"(result)
      : [pointer] "r"(pointer), "D"(process), "S"(thread), "d"(static_cast<long>(signal))
      : "rbx", "rcx", "r11", "memory");
}

TEST(StopSignals, NothingIsWrittenBelowTheStackPointer) {
  Child child([](int pipe) {
    install_stop_handlers();
    std::vector<std::byte> memory(64 << 10, std::byte{0x5A});
    signal_with_stack_pointer(memory.data() + memory.size() / 16 * 16, SIGINT);
    const bool is_whole = std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{0x5A}; });
    tell(pipe, !stop_requested() ? "no signal" : is_whole ? "whole" : "overwritten");
  });
  EXPECT_EQ(child.read(), "whole");
  EXPECT_EQ(child.wait(), 0);
}
#endif

}  // namespace
}  // namespace hydrac::runtime
