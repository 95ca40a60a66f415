// Measured choices that outlive the process: a map of text in a sealed file, which several processes share.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace hydrac::runtime {

class ChoiceFile {
 public:
  // An empty path: remembers in memory only.
  explicit ChoiceFile(std::filesystem::path file);

  std::optional<std::string> find(const std::string& key) const;
  // Adds or replaces; lines that other processes wrote meanwhile stay. False if the file cannot be written,
  // which only costs another measurement. Neither text has a line break, and the key no tab.
  bool remember(const std::string& key, const std::string& value);

 private:
  void read();

  std::filesystem::path file_;
  std::map<std::string, std::string> choices_;
};

}  // namespace hydrac::runtime
