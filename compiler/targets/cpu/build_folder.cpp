#include "targets/cpu/build_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/cache/sealed_file.h"
#include "runtime/error.h"

namespace hydrac::targets {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrefix = "build-";

int open_folder(const fs::path& dir) {
  return ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

// The lock of the whole cache. Its holder may make and remove build folders, so nobody else sees a folder
// between its creation and its own lock.
class CacheLock {
 public:
  explicit CacheLock(const fs::path& cache_dir) : fd_(open_folder(cache_dir)) {
    while (fd_ >= 0 && !(held_ = ::flock(fd_, LOCK_EX) == 0) && errno == EINTR) {
    }
  }
  ~CacheLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;
  bool held() const { return held_; }  // some network file systems have no locks

 private:
  int fd_;
  bool held_ = false;
};

void remove_abandoned(const fs::path& cache_dir) {
  std::error_code error;
  for (fs::directory_iterator entry(cache_dir, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    const int fd = open_folder(entry->path());
    if (fd < 0) continue;
    std::error_code ignored;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry->path(), ignored);
    ::close(fd);
  }
}

}  // namespace

BuildFolder::BuildFolder(const fs::path& cache_dir) {
  std::error_code error;
  fs::create_directories(cache_dir, error);
  const CacheLock cache(cache_dir);
  if (cache.held()) {
    remove_abandoned(cache_dir);
    runtime::remove_old_temporaries(cache_dir);
  }
  std::string name = (cache_dir / kPrefix).string() + "XXXXXX";
  if (!::mkdtemp(name.data())) {
    throw runtime::RunError(
        fmt::format("cannot write into the cache folder {}: {}; set $HYDRAC_CACHE to one that can be written",
                    cache_dir.string(), std::strerror(errno)));
  }
  path_ = name;
  lock_ = open_folder(path_);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);
}

BuildFolder::~BuildFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace hydrac::targets
