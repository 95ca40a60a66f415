// A folder that has its name only once everything is in it.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "runtime/checkpoint/file_writer.h"

namespace hydrac::cli {

// `folder` as files of it are named: without a slash at its end.
std::filesystem::path folder_name(const std::filesystem::path& folder);

class NewFolder {
 public:
  static std::filesystem::path unfinished_of(std::filesystem::path folder);  // FOLDER.hydrac-tmp

  // Makes FOLDER.hydrac-tmp, or empties the one that a killed process left. RunError if it cannot; InputError
  // if another process is writing it.
  explicit NewFolder(const std::filesystem::path& folder);
  // Removes what was not published.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void add(const std::string& name, const std::function<void(runtime::FileWriter&)>& write) const;
  // Renames it to FOLDER. An existing folder of that name is an error; with `replace` it is replaced
  // atomically and removed.
  void publish(bool replace = false) const;

  const std::filesystem::path& name() const { return folder_; }
  const std::filesystem::path& unfinished() const { return unfinished_; }

 private:
  std::filesystem::path folder_, unfinished_;
  int lock_ = -1;
};

}  // namespace hydrac::cli
