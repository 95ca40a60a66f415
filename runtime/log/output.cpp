#include "runtime/log/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace hydrac::runtime {

namespace {

// EBADF: the program was started with the descriptor closed. EIO: the terminal hung up; for a file it is a
// disk error.
bool nobody_reads(std::FILE* out, int error) {
  if (error == EPIPE || error == EBADF) return true;
  struct stat info {};
  return error == EIO && ::fstat(::fileno(out), &info) == 0 && S_ISCHR(info.st_mode);
}

void redirect_to_nothing(std::FILE* out) {
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0) return;
  ::dup2(nothing, ::fileno(out));
  ::close(nothing);
  std::clearerr(out);
}

void tell(const char* what, int error) {
  print_error("cannot write standard output: " + std::string(std::strerror(error)) + "; " + what + "\n");
}

}  // namespace

void print_text(std::FILE* out, std::string_view text) {
  const bool failed_before = std::ferror(out) != 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (written && std::fflush(out) == 0) return;
  const int error = errno;
  if (nobody_reads(out, error)) {
    tell("going on without it", error);
    redirect_to_nothing(out);
  } else if (!failed_before) {
    tell("going on; what was lost is in no log", error);
  }
}

void print_error(std::string_view text) {
  std::fflush(stdout);  // what comes first is written first, where both go to one file
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace hydrac::runtime
