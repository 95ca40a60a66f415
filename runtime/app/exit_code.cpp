#include "runtime/app/exit_code.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

// What could not be printed was not done: the disk behind > file may be full.
void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  throw RunError(fmt::format("cannot write to the standard output: {}",
                             errno != 0 ? std::strerror(errno) : "earlier text was lost"));
}

}  // namespace

int exit_code_of(std::string_view program, const std::function<int()>& work) {
  // A limit on the size of files (ulimit -f) is an error of the write that meets it, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = work();
    flush_output();
    return code;
  } catch (const InputError& error) {
    fmt::print(stderr, "{}: error: {}\n", program, error.what());
    return kExitBadInput;
  } catch (const RunError& error) {
    fmt::print(stderr, "{}: the run failed: {}\n", program, error.what());
    return kExitRunFailed;
  } catch (const std::system_error& error) {
    // Files and processes of the environment; std::filesystem's errors name the path.
    fmt::print(stderr, "{}: the run failed: {}\n", program, error.what());
    return kExitRunFailed;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: the run failed: this machine has not enough memory for it\n", program);
    return kExitRunFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: internal error, please report it with the spec: {}\n", program, error.what());
    return kExitRunFailed;
  }
}

}  // namespace hydrac::runtime
