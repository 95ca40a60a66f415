#include "runtime/checkpoint/file_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/crc32c.h"

namespace hydrac::runtime {

namespace {

constexpr size_t buffer_bytes = size_t{1} << 18;

// Adds advice for this error, because the system's own words say too little. `name`: the option or key that
// chooses another folder for the file.
std::string advice(int error, std::string_view name) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return fmt::format("; free some space or {} a folder on another disk", name);
    case EACCES:
    case EPERM:
    case EROFS:
      return fmt::format("; {} a folder that may be written", name);
    case EFBIG:
      return fmt::format("; raise the limit on file sizes (ulimit -f) or {} a folder on another file system",
                         name);
    default:
      return "";
  }
}

}  // namespace

FileError::FileError(const std::string& problem, int error)
    : RunError(problem + advice(error, "set output.dir to")), elsewhere(problem + advice(error, "name")) {}

void throw_run_error(const char* action, const std::filesystem::path& path, int error) {
  throw FileError(fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(error)), error);
}

FileWriter::FileWriter(std::filesystem::path path) : path_(std::move(path)) {
  buffer_.reserve(buffer_bytes);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) throw_run_error("create", path_, errno);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  if (fd_ < 0) throw std::logic_error("FileWriter::write after close_durably");
  crc32c_ = runtime::crc32c(bytes, crc32c_);
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() >= buffer_bytes) return write_all(fd_, bytes, path_);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void FileWriter::flush() {
  write_all(fd_, buffer_, path_);
  buffer_.clear();
}

void FileWriter::close_durably() {
  flush();
  if (::fsync(fd_) != 0) throw_run_error("write", path_, errno);
  // The descriptor is gone even when close fails; some network file systems report a full disk only here.
  if (::close(std::exchange(fd_, -1)) != 0) throw_run_error("write", path_, errno);
}

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_run_error("write", path, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

std::filesystem::path temporary_of(const std::filesystem::path& path) {
  return path.string() + ".tmp";
}

void replace_file(const std::filesystem::path& path, std::string_view contents) {
  const std::filesystem::path temporary = temporary_of(path);
  ::unlink(temporary.c_str());  // left by a killed process, or a link that leads elsewhere
  try {
    FileWriter file(temporary);
    file.write(contents);
    file.close_durably();
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw_run_error("replace", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

std::optional<std::string> obstacle_to_writing(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(folder, error).lexically_normal();
  if (error) return error.message();  // the working folder is gone
  struct stat info {};
  while (::stat(there.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR) &&
         there.has_relative_path())
    there = there.parent_path();
  std::string probe = (there / ".hydrac-XXXXXX").string();
  if (::mkdtemp(probe.data()) == nullptr) return std::strerror(errno);
  ::rmdir(probe.c_str());
  return std::nullopt;
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_run_error("open the folder", folder, errno);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Some network file systems have no fsync for folders; their renames are durable on the server.
  if (error != 0 && error != EINVAL && error != ENOTSUP) throw_run_error("write the folder", folder, error);
}

std::string read_file(const std::filesystem::path& path) {
  const RegularFile file(path);
  std::string contents, problem = file.problem();
  if (problem.empty() && !file.read_all(contents)) problem = std::strerror(errno);
  if (!problem.empty()) throw InputError(fmt::format("cannot read {}: {}", path.string(), problem));
  return contents;
}

}  // namespace hydrac::runtime
