#include "runtime/cache/cache_dir.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "runtime/cache/cache_warning.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace fs = std::filesystem;

namespace {

std::optional<fs::path> folder_in(const char* variable) {
  const char* value = std::getenv(variable);
  if (!value || !*value) return std::nullopt;
  return fs::path(value);
}

// The user's own wish first. The standard ignores $XDG_CACHE_HOME where it is no absolute path.
std::optional<fs::path> wanted_folder() {
  if (const auto named = folder_in("HYDRAC_CACHE")) return named;
  if (const auto caches = folder_in("XDG_CACHE_HOME"); caches && caches->is_absolute())
    return *caches / "hydrac";
  if (const auto home = folder_in("HOME")) return *home / ".cache" / "hydrac";
  return std::nullopt;
}

// A folder of this process alone.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    fs::path parent = fs::temp_directory_path(error);
    if (error) parent = "/tmp";
    std::string name = (parent / "hydrac-XXXXXX").string();
    if (!::mkdtemp(name.data())) {
      throw RunError(
          fmt::format("cannot make a temporary folder in {}: {}; set $HYDRAC_CACHE to a folder of "
                      "yours that can be written",
                      parent.string(), std::strerror(errno)));
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Only the last folder is private; those above it are as any program would make them.
std::error_code make_private(const fs::path& dir) {
  std::error_code error;
  if (fs::is_directory(dir, error)) return {};
  error.clear();
  if (dir.has_parent_path()) fs::create_directories(dir.parent_path(), error);
  if (error) return error;
  if (::mkdir(dir.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return {errno, std::generic_category()};
}

bool others_may_write(const struct stat& info) {
  return (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

// In a sticky folder, such as /tmp, nobody renames what belongs to others.
bool all_may_rename(const struct stat& info) {
  return (info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0;
}

}  // namespace

std::string distrust(const fs::path& dir) {
  struct stat info {};
  if (::stat(dir.c_str(), &info) != 0) return std::strerror(errno);
  if (!S_ISDIR(info.st_mode)) return "it is no folder";
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return fmt::format("it belongs to another user (uid {})", info.st_uid);
  if (others_may_write(info))
    return fmt::format("others may write there (mode {:04o})", info.st_mode & 07777);
  for (fs::path above = dir.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    if (::stat(above.c_str(), &info) == 0 && all_may_rename(info))
      return fmt::format("{}, which it lies in, may be changed by all (mode {:04o})", above.string(),
                         info.st_mode & 07777);
  }
  return "";
}

const fs::path& temporary_cache() {
  static const TemporaryFolder folder;
  return folder.path();
}

fs::path cache_dir() {
  const std::optional<fs::path> wanted = wanted_folder();
  if (!wanted) return temporary_cache();
  const char* advice = "set $HYDRAC_CACHE to a folder of yours that nobody else can write (chmod 700)";
  if (const std::error_code error = make_private(*wanted)) {
    warn_of_cache(fmt::format("the cache folder {} cannot be made ({}), so nothing is remembered; {}",
                              wanted->string(), error.message(), advice));
    return temporary_cache();
  }
  std::error_code error;
  const fs::path real = fs::canonical(*wanted, error);
  const std::string reason = error ? error.message() : distrust(real);
  if (reason.empty()) return real;
  warn_of_cache(fmt::format("the cache folder {} is not used: {}; {}", wanted->string(), reason, advice));
  return temporary_cache();
}

}  // namespace hydrac::runtime
