#include "runtime/log/signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
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

}  // namespace

void install_stop_handlers() {
  stop = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // the step is to finish undisturbed
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() {
  return stop.load(std::memory_order_relaxed);
}

}  // namespace hydrac::runtime
