#include "runtime/app/exit_code.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "runtime/base/quote.h"
#include "runtime/data/mapping_faults.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/log/signal.h"

namespace hydrac::runtime {

namespace {

void say(std::string_view program, std::string_view what, std::string_view message) {
  print_error(fmt::format("{}: {}: {}\n", program, what, safe_message(message)));
}

// A closed standard stream is replaced, so that no file that is opened later gets its number. Each is opened
// with the wrong access mode, so using it stays an error.
void fill_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    [[maybe_unused]] const int taken = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// The reader of standard output. The error of a write to it may be lost in buffers.
bool reader_is_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

// In a pipe such as `| head` a program ends without a message, as if the signal had ended it.
int report_lost_output(std::string_view program, int error) {
  if (error == EPIPE || reader_is_gone()) return kExitNobodyReads;
  say(program, "the run failed",
      error == 0 ? "standard output could not be written"
                 : fmt::format("cannot write standard output: {}", std::strerror(error)));
  return kExitRunFailed;
}

int code_of(std::string_view program, const std::function<int()>& work) {
  try {
    return work();
  } catch (const InputError& error) {
    say(program, "error", error.what());
    return kExitBadInput;
  } catch (const RunError& error) {
    say(program, "the run failed", error.what());
    return kExitRunFailed;
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string message = fmt::format("{}: {}", error.path1().string(), error.code().message());
    // A loop of links or a name that is too long is what somebody wrote.
    const bool is_name = error.code() == std::errc::too_many_symbolic_link_levels ||
                         error.code() == std::errc::filename_too_long;
    say(program, is_name ? "error" : "the run failed", message);
    return is_name ? kExitBadInput : kExitRunFailed;
  } catch (const std::system_error& error) {
    // fmt::print throws this.
    if (std::ferror(stdout)) return report_lost_output(program, error.code().value());
    // Files and processes of the environment.
    say(program, "the run failed", error.what());
    return kExitRunFailed;
  } catch (const std::bad_alloc&) {
    say(program, "the run failed", "this machine has not enough memory for it");
    return kExitRunFailed;
  } catch (const std::exception& error) {
    say(program, "internal error, please report it with the spec", error.what());
    return kExitRunFailed;
  }
}

}  // namespace

int exit_code_of(std::string_view program, const std::function<int()>& work) {
  fill_standard_streams();
  ignore_write_signals();
  report_mapping_faults(program);
  const int code = code_of(program, work);
  const int error = std::fflush(stdout) == 0 ? 0 : errno;
  const bool lost = error != 0 || std::ferror(stdout);
  // A run that failed has said so, and one that was stopped must be continued: both matter more.
  if (!lost || code == kExitBadInput || code == kExitRunFailed || code == kExitStopped) return code;
  return report_lost_output(program, error);
}

}  // namespace hydrac::runtime
