#include "cli/output/new_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "runtime/error.h"

namespace hydrac::cli {

namespace fs = std::filesystem;

fs::path folder_name(const fs::path& folder) {
  const fs::path name = folder.lexically_normal();
  return name.has_filename() ? name : name.parent_path();  // "out/"
}

fs::path NewFolder::unfinished_of(fs::path folder) {
  return folder += ".hydrac-tmp";
}

NewFolder::NewFolder(const fs::path& folder)
    : folder_(folder_name(folder)), unfinished_(unfinished_of(folder_)) {
  std::error_code error;
  if (fs::create_directories(unfinished_, error); error)
    runtime::throw_run_error("create the folder", unfinished_, error.value());
  lock_ = ::open(unfinished_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (lock_ < 0) runtime::throw_run_error("open the folder", unfinished_, errno);
  // A file system without locks does not tell.
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    throw runtime::InputError(
        fmt::format("{}: another hydrac is writing to this folder", unfinished_.string()));
  }
  for (const auto& entry : fs::directory_iterator(unfinished_)) {
    if (fs::remove_all(entry.path(), error); error)
      runtime::throw_run_error("remove", entry.path(), error.value());
  }
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  fs::remove_all(unfinished_, ignored);
  ::close(lock_);
}

void NewFolder::add(const std::string& name, const std::function<void(runtime::FileWriter&)>& write) const {
  runtime::FileWriter file(unfinished_ / name);
  write(file);
  file.close_durably();
}

void NewFolder::publish(bool replace) const {
  runtime::sync_folder(unfinished_);
  std::error_code ignored;
  int failed = 0;
  if (replace && fs::exists(folder_, ignored)) {
    // Both change names at once; the destructor removes the old one.
    failed = ::renameat2(AT_FDCWD, unfinished_.c_str(), AT_FDCWD, folder_.c_str(), RENAME_EXCHANGE);
    if (failed != 0 && (errno == EINVAL || errno == ENOSYS)) {  // a file system that cannot
      fs::remove_all(folder_, ignored);
      failed = std::rename(unfinished_.c_str(), folder_.c_str());
    }
  } else {
    failed = std::rename(unfinished_.c_str(), folder_.c_str());
  }
  if (failed != 0) runtime::throw_run_error("create the folder", folder_, errno);
  runtime::sync_folder(folder_.has_parent_path() ? folder_.parent_path() : fs::path("."));
}

}  // namespace hydrac::cli
