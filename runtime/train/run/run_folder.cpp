#include "runtime/train/run/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "runtime/base/written_folder.h"
#include "runtime/checkpoint/checkpoint_dirs.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace fs = std::filesystem;

namespace {

// Such a folder's neighbours, where an earlier run would go, lie outside of the working folder.
bool holds_working_directory(const fs::path& dir) {
  std::error_code error;
  const fs::path outer = fs::canonical(dir, error);
  const fs::path inner = error ? fs::path() : fs::current_path(error);
  if (error) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

void check_movable(const fs::path& run_dir, Remains remains) {
  if (remains == Remains::run && holds_working_directory(run_dir)) {
    throw InputError(fmt::format(
        "{} holds an earlier run and cannot be moved aside, because it is or holds the working directory; "
        "continue that run with --resume, or set output.dir to another folder",
        run_dir.string()));
  }
}

void check_allowed(const fs::path& run_dir) {
  if (const std::string reason = why_not_written(run_dir); !reason.empty())
    throw InputError(fmt::format("{} {}; set output.dir to another folder", run_dir.string(), reason));
}

// The name to append to: no trailing slash, and a link's folder rather than the link.
fs::path folder_itself(const fs::path& run_dir) {
  const fs::path named = run_dir.has_filename() ? run_dir : run_dir.parent_path();
  std::error_code ignored;
  const bool plain = named.filename() != "." && named.filename() != ".." && !fs::is_symlink(named, ignored);
  return plain ? named : fs::canonical(named);
}

[[noreturn]] void cannot_move(const fs::path& run_dir, int error) {
  throw InputError(fmt::format(
      "{} holds an earlier run and cannot be moved aside: {}; continue that run with --resume, or set "
      "output.dir to another folder",
      run_dir.string(), std::strerror(error)));
}

// A new folder <from>.1, or the next number that is free.
fs::path make_neighbour(const fs::path& from, const fs::path& run_dir) {
  for (int number = 1;; ++number) {
    const fs::path to = from.string() + fmt::format(".{}", number);
    if (::mkdir(to.c_str(), 0777) == 0) return to;
    if (errno != EEXIST) cannot_move(run_dir, errno);
  }
}

// File by file, because the user's own stay. The new folder's names are free, so that nothing is replaced.
fs::path move_aside(const fs::path& run_dir) {
  const fs::path from = folder_itself(run_dir);
  const fs::path to = make_neighbour(from, run_dir);
  for (const std::string& name : names_of_run(from)) {
    if (::rename((from / name).c_str(), (to / name).c_str()) == 0) continue;
    const int error = errno;
    ::rmdir(to.c_str());  // where it is empty: a folder that is a mount point, for example
    cannot_move(run_dir, error);
  }
  sync_folder(to);
  sync_folder(from);
  sync_folder(from.has_parent_path() ? from.parent_path() : ".");
  return to;
}

// An open and locked descriptor of the folder.
int lock_folder(const fs::path& run_dir) {
  const int fd = ::open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_run_error("open the folder", run_dir, errno);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
  ::close(fd);
  throw InputError(fmt::format(
      "another process is training in {}; wait for it to end, or set output.dir to another folder",
      run_dir.string()));
}

// True if `run_dir` still names the open folder, which another process may have moved before it was locked. A
// folder that cannot be examined (a network file system, for a moment) counts as not moved.
bool still_named(int fd, const fs::path& run_dir) {
  struct stat open {};
  struct stat named {};
  if (::stat(run_dir.c_str(), &named) != 0) return errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
  return ::fstat(fd, &open) != 0 || (open.st_dev == named.st_dev && open.st_ino == named.st_ino);
}

[[noreturn]] void no_run(const fs::path& run_dir) {
  throw InputError(
      fmt::format("{} holds no run to resume; leave out --resume to begin one", run_dir.string()));
}

}  // namespace

RunFolder RunFolder::create(const fs::path& run_dir, const Note& note) {
  check_allowed(run_dir);
  for (;;) {
    std::error_code error;
    fs::create_directories(run_dir, error);
    if (error) throw_run_error("create the folder", run_dir, error.value());
    RunFolder folder(lock_folder(run_dir), run_dir);
    if (!still_named(folder.fd_, run_dir)) continue;
    const Remains remains = remains_in(run_dir);
    if (remains == Remains::run) {
      check_movable(run_dir, remains);
      note(fmt::format("moved the earlier run in {} to {}", run_dir.string(), move_aside(run_dir).string()));
    }
    return folder;
  }
}

RunFolder RunFolder::open(const fs::path& run_dir) {
  std::error_code error;
  if (!fs::exists(run_dir, error)) no_run(run_dir);
  require_own_names(run_dir);
  return RunFolder(lock_folder(run_dir), run_dir);
}

RunFolder::~RunFolder() {
  if (fd_ >= 0) ::close(fd_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), run_dir_(std::move(other.run_dir_)) {}

RunFolder& RunFolder::operator=(RunFolder&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(run_dir_, other.run_dir_);
  return *this;
}

fs::path RunFolder::place() const {
  if (still_named(fd_, run_dir_)) return run_dir_;
  std::error_code error;
  const fs::path now = fs::read_symlink(fmt::format("/proc/self/fd/{}", fd_), error);
  if (!error && still_named(fd_, now)) return now;
  throw RunError(fmt::format("{} was removed while it was trained in, with all that was saved there",
                             run_dir_.string()));
}

bool holds_run(const fs::path& run_dir) {
  return remains_in(run_dir) == Remains::run;
}

std::optional<Checkpoint> checkpoint_to_resume(const fs::path& run_dir, const Note& note) {
  CheckpointSearch search = find_latest(run_dir);
  std::string damage;
  for (const CheckpointSearch::Rejected& rejected : search.rejected) {
    const std::string line = fmt::format("{}: {}", rejected.dir.string(), rejected.reason);
    damage += "\n  " + line;
    if (search.latest) note("passed over a damaged checkpoint, " + line);
  }
  if (search.latest) return search.latest;
  if (!damage.empty()) {
    throw InputError(
        fmt::format("{} has no intact checkpoint to resume from:{}\nrestore one of them, or start a new run "
                    "without --resume (this one is then moved aside, not overwritten)",
                    run_dir.string(), damage));
  }
  std::error_code error;
  if (!fs::exists(metrics_path(run_dir), error)) no_run(run_dir);
  return std::nullopt;
}

void check_new_run(const fs::path& run_dir) {
  std::error_code error;
  check_allowed(run_dir);
  if (fs::is_directory(run_dir, error)) RunFolder::open(run_dir);  // whether another process trains there
  check_movable(run_dir, remains_in(run_dir));
}

}  // namespace hydrac::runtime
