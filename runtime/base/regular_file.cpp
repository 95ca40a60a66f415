#include "runtime/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hydrac::runtime {

namespace {

std::string kind_problem(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  const char* kind = S_ISFIFO(mode)   ? "pipe"
                     : S_ISSOCK(mode) ? "socket"
                     : S_ISLNK(mode)  ? "symbolic link"
                                      : "device";
  return std::string("it is a ") + kind + ", no regular file";
}

}  // namespace

RegularFile::RegularFile(const std::filesystem::path& path, LastLink link) {
  const bool follow = link == LastLink::follow;
  struct stat info {};
  if ((follow ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info)) != 0) {
    is_missing_ = errno == ENOENT || errno == ENOTDIR;
    problem_ = std::strerror(errno);
    return;
  }
  if (!S_ISREG(info.st_mode)) {
    problem_ = kind_problem(info.st_mode);
    return;
  }
  // Another program may put something else in its place meanwhile: O_NONBLOCK, and a second look.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW));
  if (fd_ < 0 || ::fstat(fd_, &info) != 0)
    problem_ = std::strerror(errno);
  else if (!S_ISREG(info.st_mode))
    problem_ = kind_problem(info.st_mode);
  else
    size_ = static_cast<uint64_t>(info.st_size);
}

RegularFile::~RegularFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool RegularFile::read_all(std::string& contents, size_t most) const {
  char piece[1 << 16];
  while (contents.size() < most) {
    const ssize_t count = ::read(fd_, piece, std::min(sizeof piece, most - contents.size()));
    if (count == 0) return true;
    if (count > 0) contents.append(piece, static_cast<size_t>(count));
    if (count < 0 && errno != EINTR) return false;
  }
  return true;
}

}  // namespace hydrac::runtime
