#include "runtime/log/signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string_view>

namespace hydrac::runtime {

namespace {

constexpr int interrupted_exit_code = 130;

std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

void on_signal(int) {
  const int error = errno;
  if (stop.exchange(true)) ::_exit(interrupted_exit_code);
  constexpr std::string_view notice = "\nstopping after this step; once more to stop at once\n";
  // Nothing can be done here about a closed stderr, and nothing depends on the notice.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, notice.data(), notice.size());
  errno = error;
}

// Gives handlers that run on this thread a stack of their own. The code that oneDNN generates for products
// uses the stack pointer as a pointer into its buffers: below it the kernel would save a signal's 3 to 11 KiB
// of registers over whatever lies there on the heap.
void use_stack_for_signals() {
  constexpr std::size_t bytes = 64 << 10;
  alignas(64) static char memory[bytes];
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = bytes;
  sigaltstack(&stack, nullptr);  // cannot fail: it is large enough, and no handler is running
}

}  // namespace

void install_stop_handlers() {
  stop = false;
  use_stack_for_signals();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // the step is to finish undisturbed
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() {
  return stop.load(std::memory_order_relaxed);
}

}  // namespace hydrac::runtime
