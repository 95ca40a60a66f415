#include "cli/init/starter_text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "runtime/error.h"
#include "spec/load.h"

namespace hydrac::cli {

std::string starter_file(const std::vector<StarterFile>& files, const std::string& path) {
  for (const StarterFile& file : files) {
    if (file.path == path) return file.text;
  }
  throw std::logic_error("no such text: " + path);
}

spec::Spec load_starter(const std::string& name, const std::string& text,
                        const std::vector<std::string>& overrides) {
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec_text(name, text, overrides, diagnostics);
  if (!spec) throw runtime::InputError("the spec would be wrong:\n" + diagnostics.render());
  return *spec;
}

namespace {

// Lines "key: value @# comment" with their comments in one column, where the values leave room for it.
std::string align_comments(const std::string& text) {
  constexpr size_t column = 32;
  std::string aligned;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const size_t mark = line.find(" @# ");
    if (mark == std::string::npos) {
      aligned += line + "\n";
    } else {
      const size_t pad = mark + 2 > column ? 2 : column - mark;
      aligned += line.substr(0, mark) + std::string(pad, ' ') + line.substr(mark + 2) + "\n";
    }
    begin = end + 1;
  }
  return aligned;
}

// Every @WORD@ by what it stands for; one that is not known yet by nothing.
std::string fill(const std::string& text, const Words& words) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find('@', at);
    const size_t end =
        begin == std::string::npos ? begin : text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", begin + 1);
    if (begin == std::string::npos) return filled + text.substr(at);
    filled += text.substr(at, begin - at);
    if (end == std::string::npos || end == begin + 1 || text[end] != '@') {
      filled += '@';
      at = begin + 1;
      continue;
    }
    const auto word = words.find(text.substr(begin + 1, end - begin - 1));
    if (word != words.end()) filled += word->second;
    at = end + 1;
  }
  return filled;
}

}  // namespace

std::string fill_starter(const std::string& name, const Words& words) {
  return align_comments(fill(starter_file(starter_texts(), name), words));
}

void say_auto(Words& words) {
  words["TARGET"] = "auto";
  words["PRECISION"] = words["OPTIMIZATIONS"] = "";
}

std::string run_name(const std::string& path) {
  const std::filesystem::path file = path;
  std::string name = file.stem().string();
  std::ranges::replace_if(
      name,
      [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.'; },
      '-');
  if (name.empty() || name.front() == '-' || name.front() == '.') name = "run" + name;
  return name;
}

}  // namespace hydrac::cli
