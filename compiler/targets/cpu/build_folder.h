// A folder in the cache that one process compiles in.
#pragma once
#include <filesystem>

namespace hydrac::targets {

// Made and locked by the constructor, removed by the destructor. The lock is the kernel's and ends with the
// process, however that ends; so the constructor also removes the folders of processes that are gone.
// RunError when the cache cannot be written.
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
