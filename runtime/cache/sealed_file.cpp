#include "runtime/cache/sealed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "runtime/base/regular_file.h"
#include "runtime/cache/cache_warning.h"
#include "runtime/data/hash.h"

namespace hydrac::runtime {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kSeal = "\nhydrac-seal 1 ";
constexpr std::string_view kTemporary = ".tmp-";  // and six letters, behind the file's own name

std::string seal_of(const fs::path& path, std::string_view content) {
  const std::string name = path.filename().string();
  return fmt::format("{}{} {:016x}\n", kSeal, content.size(), Hash64().add(name).add(content).value());
}

bool write_all_of(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void sync_folder_of(const fs::path& path) {
  const int fd =
      ::open(path.has_parent_path() ? path.parent_path().c_str() : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // the file may be lost with a power failure, and is then made anew
  ::close(fd);
}

}  // namespace

void warn_of_damage(const fs::path& path, std::string_view reason) {
  warn_of_cache(fmt::format("{}: {}; it is made anew", path.string(), reason));
}

bool write_whole(const fs::path& path, std::string_view content, bool durable) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  std::string temporary = fmt::format("{}{}XXXXXX", path.string(), kTemporary);
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return false;
  bool good = write_all_of(fd, content) && (!durable || ::fsync(fd) == 0);
  good = ::close(fd) == 0 && good;
  if (good && ::rename(temporary.c_str(), path.c_str()) == 0) {
    if (durable) sync_folder_of(path);
    return true;
  }
  ::unlink(temporary.c_str());
  return false;
}

std::optional<std::string> read_whole(const fs::path& path) {
  const RegularFile file(path, LastLink::refuse);
  if (file.is_missing()) return std::nullopt;
  std::string content, reason = file.problem();
  if (reason.empty() && !file.read_all(content)) reason = std::strerror(errno);
  if (reason.empty()) return content;
  warn_of_damage(path, fmt::format("cannot be read ({})", reason));
  return std::nullopt;
}

bool write_sealed(const fs::path& path, std::string_view content) {
  return write_whole(path, std::string(content) + seal_of(path, content));
}

std::optional<std::string> read_sealed(const fs::path& path) {
  std::optional<std::string> content = read_whole(path);
  if (!content) return std::nullopt;
  const size_t at = content->rfind(kSeal);
  if (at != std::string::npos &&
      content->substr(at) == seal_of(path, std::string_view(*content).substr(0, at))) {
    content->resize(at);
    return content;
  }
  warn_of_damage(path, "does not match its checksum");
  return std::nullopt;
}

void remove_old_temporaries(const fs::path& dir) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const size_t at = name.rfind(kTemporary);
    if (at == std::string::npos || name.size() != at + kTemporary.size() + 6) continue;
    std::error_code ignored;
    const auto written = fs::last_write_time(entry->path(), ignored);
    if (!ignored && now - written > std::chrono::hours(1)) fs::remove(entry->path(), ignored);
  }
}

}  // namespace hydrac::runtime
