#include "runtime/log/signal.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string_view>

namespace hydrac::runtime {

namespace {

std::atomic<bool> stop{false};
std::atomic<double> first_signal{0};  // when it came; 0 until then
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<double>::is_always_lock_free,
              "set by a signal handler");

// std::chrono is not promised to be safe in a handler.
double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void on_signal(int signal) {
  const int error = errno;
  // In one step: another thread may handle a second signal at the same time.
  double first = 0;
  const double now = seconds_now();
  if (first_signal.compare_exchange_strong(first, now)) {
    stop = true;
    constexpr std::string_view notice = "\nstopping after this step; once more to stop at once\n";
    // Nothing can be done here about a closed stderr, and nothing depends on the notice.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, notice.data(), notice.size());
  } else if (signal != SIGHUP && now - first > kSameSignalSeconds) {
    ::_exit(kExitInterrupted);
  }
  errno = error;
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Gives signal handlers of this thread a stack of their own. oneDNN's generated matmul code uses the stack
// pointer as a pointer into its buffers, so the kernel would save a signal's 3 to 11 KiB of registers over
// heap data below it.
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
  first_signal = 0;
  use_stack_for_signals();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // the step is to finish undisturbed
  sigfillset(&action.sa_mask);                // one at a time
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  if (!is_ignored(SIGHUP)) sigaction(SIGHUP, &action, nullptr);
}

void ignore_write_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigemptyset(&action.sa_mask);
  sigaction(SIGPIPE, &action, nullptr);
  sigaction(SIGXFSZ, &action, nullptr);
}

bool stop_requested() {
  return stop.load(std::memory_order_relaxed);
}

}  // namespace hydrac::runtime
