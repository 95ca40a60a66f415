// A folder in the cache that one process compiles in.
#pragma once
#include <filesystem>

namespace hydrac::targets {

// Made and locked by the constructor, removed by the destructor. The kernel holds the lock and drops it when
// the process ends in any way, so the constructor also removes folders of dead processes. RunError if the
// cache cannot be written.
class BuildFolder {
 public:
  explicit BuildFolder(const std::filesystem::path& cache_dir);
  ~BuildFolder();
  BuildFolder(const BuildFolder&) = delete;
  BuildFolder& operator=(const BuildFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  // of the folder
};

}  // namespace hydrac::targets
