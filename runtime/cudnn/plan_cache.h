// Plans on disk, so that a program compiles cuDNN's engines only the first time that it runs.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace hydrac::runtime::cudnn {

struct StoredPlan {
  std::string engine;
  std::string json;
};

// One file a plan, found by a key that says all that the plan depends on. Several processes may share the
// folder.
class PlanCache {
 public:
  // An empty path: nothing is kept.
  explicit PlanCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  bool on() const { return !folder_.empty(); }
  // nullopt when there is no such plan or its file is damaged.
  std::optional<StoredPlan> read(const std::string& key) const;
  // Throws RunError when the folder cannot be written.
  void write(const std::string& key, const StoredPlan& plan) const;

 private:
  std::filesystem::path file(const std::string& key) const;
  std::filesystem::path folder_;
};

}  // namespace hydrac::runtime::cudnn
