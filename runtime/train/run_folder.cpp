#include "runtime/train/run_folder.h"

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

#include "runtime/checkpoint/checkpoint_dirs.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace fs = std::filesystem;

namespace {

enum class Remains {
  nothing,     // or a run that had not come to its first record
  run,         // records or checkpoints
  other_spec,  // a spec.yaml that no run wrote: a run makes its metrics.jsonl first
};

Remains remains_in(const fs::path& run_dir) {
  std::error_code error;
  if (!fs::exists(run_dir, error)) return Remains::nothing;
  if (!list_checkpoint_dirs(run_dir).empty()) return Remains::run;
  const uintmax_t metrics_bytes = fs::file_size(metrics_path(run_dir), error);
  if (!error) return metrics_bytes > 0 ? Remains::run : Remains::nothing;
  return fs::exists(spec_path(run_dir), error) ? Remains::other_spec : Remains::nothing;
}

// Renaming a folder that we stand in would take the user's own files along.
bool holds_working_directory(const fs::path& dir) {
  std::error_code error;
  const fs::path outer = fs::canonical(dir, error);
  const fs::path inner = error ? fs::path() : fs::current_path(error);
  if (error) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

void check_movable(const fs::path& run_dir, Remains remains) {
  if (remains == Remains::other_spec) {
    throw InputError(
        fmt::format("{} exists and belongs to no run, which would overwrite it; set output.dir to another "
                    "folder, or rename "
                    "the file",
                    spec_path(run_dir).string()));
  }
  if (remains == Remains::run && holds_working_directory(run_dir)) {
    throw InputError(fmt::format(
        "{} holds an earlier run and cannot be moved aside, because it is or holds the working directory; "
        "continue that run with --resume, or set output.dir to another folder",
        run_dir.string()));
  }
}

// The name to rename: no trailing slash, and a link's folder rather than the link, so that the new run's
// folder comes to lie where the link says.
fs::path folder_itself(const fs::path& run_dir) {
  const fs::path named = run_dir.has_filename() ? run_dir : run_dir.parent_path();
  std::error_code ignored;
  const bool plain = named.filename() != "." && named.filename() != ".." && !fs::is_symlink(named, ignored);
  return plain ? named : fs::canonical(named);
}

// Renames `from`, which the user calls `run_dir`, to a name that is free and returns that.
fs::path rename_aside(const fs::path& from, const fs::path& run_dir) {
  for (int number = 1;; ++number) {
    const fs::path to = from.string() + fmt::format(".{}", number);
    // Nothing that exists is replaced, not even an empty folder that appears just now.
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return to;
    if (errno == EEXIST) continue;
    const int error = errno;
    std::error_code ignored;
    const bool cannot_ask = error == EINVAL || error == ENOSYS;  // a file system without RENAME_NOREPLACE
    if (cannot_ask && fs::exists(fs::symlink_status(to, ignored))) continue;
    if (cannot_ask && ::rename(from.c_str(), to.c_str()) == 0) return to;
    throw InputError(fmt::format(
        "{} holds an earlier run and cannot be moved aside: {}; continue that run with --resume, or set "
        "output.dir to another folder",
        run_dir.string(), std::strerror(cannot_ask ? errno : error)));
  }
}

// Leaves an empty folder behind: a link to it would otherwise lead nowhere.
fs::path move_aside(const fs::path& run_dir) {
  const fs::path from = folder_itself(run_dir);
  const fs::path to = rename_aside(from, run_dir);
  std::error_code error;
  fs::create_directory(from, error);
  if (error) throw_run_error("create the folder", from, error.value());
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

// Whether `run_dir` still names the open folder, which another process may have moved before it was locked.
bool still_named(int fd, const fs::path& run_dir) {
  struct stat open {};
  struct stat named {};
  return ::fstat(fd, &open) == 0 && ::stat(run_dir.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

[[noreturn]] void no_run(const fs::path& run_dir) {
  throw InputError(
      fmt::format("{} holds no run to resume; leave out --resume to begin one", run_dir.string()));
}

}  // namespace

fs::path metrics_path(const fs::path& run_dir) {
  return run_dir / "metrics.jsonl";
}

fs::path spec_path(const fs::path& run_dir) {
  return run_dir / "spec.yaml";
}

RunFolder RunFolder::create(const fs::path& run_dir, const Note& note) {
  for (;;) {
    std::error_code error;
    fs::create_directories(run_dir, error);
    if (error) throw_run_error("create the folder", run_dir, error.value());
    RunFolder folder(lock_folder(run_dir));
    if (!still_named(folder.fd_, run_dir)) continue;
    const Remains remains = remains_in(run_dir);
    if (remains == Remains::nothing) return folder;
    check_movable(run_dir, remains);
    note(fmt::format("moved the earlier run in {} to {}", run_dir.string(), move_aside(run_dir).string()));
  }
}

RunFolder RunFolder::open(const fs::path& run_dir) {
  std::error_code error;
  if (!fs::exists(run_dir, error)) no_run(run_dir);
  return RunFolder(lock_folder(run_dir));
}

RunFolder::~RunFolder() {
  if (fd_ >= 0) ::close(fd_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RunFolder& RunFolder::operator=(RunFolder&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
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
                    "without --resume "
                    "(this one is then moved aside, not overwritten)",
                    run_dir.string(), damage));
  }
  std::error_code error;
  if (!fs::exists(metrics_path(run_dir), error)) no_run(run_dir);
  return std::nullopt;
}

void check_new_run(const fs::path& run_dir) {
  std::error_code error;
  if (fs::is_directory(run_dir, error)) RunFolder::open(run_dir);  // whether another process trains there
  check_movable(run_dir, remains_in(run_dir));
}

}  // namespace hydrac::runtime
