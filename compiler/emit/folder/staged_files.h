// Files of a folder that change together.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace hydrac::emit {

// Writes each file beside the one it becomes, and gives all of them their names at the end. Where one cannot
// be written, such as on a full disk, nothing is left of any, nor of folders that were made for them.
class StagedFiles {
 public:
  StagedFiles() = default;
  // Removes what was not published.
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  // With those above it. RunError.
  void make_folder(const std::filesystem::path& folder);
  // RunError that names `path`.
  void add(const std::filesystem::path& path, const std::string& text);
  // RunError where a file cannot get its name.
  void publish();

 private:
  std::vector<std::filesystem::path> folders_;  // that were made, outer ones first
  std::vector<std::filesystem::path> files_;    // by their names to be
};

}  // namespace hydrac::emit
