// Running hydrac-oracle, a program beside hydrac.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hydrac::verify {

// The oracle's path: `given`, else beside this program. If there is none, an InputError says how to get it.
std::filesystem::path find_oracle(const std::optional<std::string>& given);

// Runs `oracle verb dir options...`, returns its stdout. RunError with its words when it fails.
std::string run_oracle(const std::filesystem::path& oracle, const std::string& verb,
                       const std::filesystem::path& dir, const std::vector<std::string>& options = {});

// A folder that is removed with the object, unless it was given by name.
class JobFolder {
 public:
  explicit JobFolder(const std::optional<std::string>& keep);
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool remove_ = false;
};

}  // namespace hydrac::verify
