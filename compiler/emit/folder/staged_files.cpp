#include "emit/folder/staged_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ranges>
#include <span>
#include <system_error>

#include "runtime/checkpoint/file_writer.h"

namespace hydrac::emit {

namespace fs = std::filesystem;

namespace {

fs::path staged(const fs::path& path) {
  return path.string() + ".part";
}

}  // namespace

StagedFiles::~StagedFiles() {
  std::error_code ignored;
  for (const fs::path& file : files_) fs::remove(staged(file), ignored);
  for (const fs::path& folder : folders_ | std::views::reverse) fs::remove(folder, ignored);
}

void StagedFiles::make_folder(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return;
  make_folder(folder.parent_path());
  if (fs::create_directory(folder, error)) folders_.push_back(folder);
  if (error) runtime::throw_run_error("make the folder", folder, error.value());
}

void StagedFiles::add(const fs::path& path, const std::string& text) {
  const int file = ::open(staged(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) runtime::throw_run_error("write", path, errno);
  files_.push_back(path);
  try {
    runtime::write_all(file, std::as_bytes(std::span(text)), path);
  } catch (...) {
    ::close(file);
    throw;
  }
  if (::close(file) != 0) runtime::throw_run_error("write", path, errno);
}

void StagedFiles::publish() {
  for (const fs::path& file : files_) {
    std::error_code error;
    fs::rename(staged(file), file, error);
    if (error) runtime::throw_run_error("write", file, error.value());
  }
  files_.clear();
  folders_.clear();
}

}  // namespace hydrac::emit
