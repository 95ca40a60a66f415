#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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
