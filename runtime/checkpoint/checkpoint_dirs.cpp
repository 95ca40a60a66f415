#include "runtime/checkpoint/checkpoint_dirs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <tuple>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

// "checkpoint-12", "checkpoint-12.tmp-345" and "checkpoint-12.old-345"; anything else is not ours.
std::optional<CheckpointDir> parse_name(const std::filesystem::path& dir) {
  const std::string name = dir.filename().string();
  constexpr std::string_view prefix = "checkpoint-";
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view rest = std::string_view(name).substr(prefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), step);
  if (error != std::errc() || step < 0) return std::nullopt;
  const std::string_view digits = rest.substr(0, static_cast<size_t>(end - rest.data()));
  if (digits != std::to_string(step)) return std::nullopt;  // a leading zero or sign
  const std::string_view suffix = rest.substr(digits.size());
  using Kind = CheckpointDir::Kind;
  if (suffix.empty()) return CheckpointDir{dir, step, Kind::complete};
  if (suffix.starts_with(".tmp-")) return CheckpointDir{dir, step, Kind::temporary};
  if (suffix.starts_with(".old-")) return CheckpointDir{dir, step, Kind::removed};
  return std::nullopt;
}

void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_run_error("rename", from, errno);
}

}  // namespace

bool is_checkpoint_name(const std::string& name) {
  return parse_name(name).has_value();
}

std::filesystem::path checkpoint_path(const std::filesystem::path& run_dir, int64_t step) {
  return run_dir / fmt::format("checkpoint-{}", step);
}

std::filesystem::path transient_path(const std::filesystem::path& run_dir, int64_t step, const char* suffix) {
  return run_dir / fmt::format("checkpoint-{}.{}-{}", step, suffix, ::getpid());
}

std::vector<CheckpointDir> list_checkpoint_dirs(const std::filesystem::path& run_dir) {
  std::error_code error;
  std::filesystem::directory_iterator entry(run_dir, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  std::vector<CheckpointDir> dirs;
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) continue;
    if (auto dir = parse_name(entry->path())) dirs.push_back(std::move(*dir));
  }
  if (error) throw InputError(fmt::format("cannot list {}: {}", run_dir.string(), error.message()));
  std::sort(dirs.begin(), dirs.end(), [](const CheckpointDir& a, const CheckpointDir& b) {
    return std::tie(b.step, a.dir) < std::tie(a.step, b.dir);
  });
  return dirs;
}

void publish_checkpoint(const std::filesystem::path& temporary, const std::filesystem::path& run_dir,
                        int64_t step) {
  const std::filesystem::path final_path = checkpoint_path(run_dir, step);
  if (::rename(temporary.c_str(), final_path.c_str()) == 0) return sync_folder(run_dir);
  if (errno != EEXIST && errno != ENOTEMPTY) throw_run_error("rename", temporary, errno);
  // An older checkpoint of this step. Swapping the two names leaves no moment without one.
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) == 0) {
    sync_folder(run_dir);
    return remove_folder(temporary);
  }
  if (errno != EINVAL && errno != ENOSYS) throw_run_error("rename", temporary, errno);
  // This file system cannot swap. Between these two renames the complete checkpoint is `temporary`; if the
  // run is killed here, clean_leftovers() renames it when the run is resumed.
  const std::filesystem::path old = transient_path(run_dir, step, "old");
  rename_folder(final_path, old);
  if (::rename(temporary.c_str(), final_path.c_str()) != 0) {
    const int error = errno;
    rename_folder(old, final_path);
    throw_run_error("rename", temporary, error);
  }
  sync_folder(run_dir);
  remove_folder(old);
}

void remove_checkpoint(const std::filesystem::path& run_dir, int64_t step) {
  const std::filesystem::path old = transient_path(run_dir, step, "old");
  rename_folder(checkpoint_path(run_dir, step), old);
  remove_folder(old);
}

void remove_folder(const std::filesystem::path& dir) {
  std::error_code error;
  std::filesystem::remove_all(dir, error);
  if (error) throw_run_error("remove", dir, error.value());
}

}  // namespace hydrac::runtime
