// The file has a line "KEY<tab>VALUE" for each choice, and the seal.
#include "runtime/cache/choice_file.h"

#include <sstream>
#include <utility>

#include "runtime/cache/sealed_file.h"

namespace hydrac::runtime {

ChoiceFile::ChoiceFile(std::filesystem::path file) : file_(std::move(file)) {
  read();
}

// Choices of this process stay.
void ChoiceFile::read() {
  if (file_.empty()) return;
  std::istringstream lines(read_sealed(file_).value_or(""));
  std::string line;
  while (std::getline(lines, line)) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) choices_.try_emplace(line.substr(0, tab), line.substr(tab + 1));
  }
}

std::optional<std::string> ChoiceFile::find(const std::string& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

bool ChoiceFile::remember(const std::string& key, const std::string& value) {
  choices_[key] = value;
  if (file_.empty()) return true;
  read();
  std::string text;
  for (const auto& [line_key, line_value] : choices_) text += line_key + '\t' + line_value + '\n';
  return write_sealed(file_, text);
}

}  // namespace hydrac::runtime
