#include "specialize/parse.h"

#include <fmt/format.h>

#include "targets/templates/templates.h"

namespace hydrac::specialize {

std::string text_of(const Problem& problem) {
  if (problem.line == 0) return problem.message;
  return fmt::format("{}:{}:{}: {}", problem.file, problem.line, problem.column, problem.message);
}

const std::vector<SourceFile>& template_headers() {
  static const std::vector<SourceFile> headers = [] {
    std::vector<SourceFile> all;
    for (const targets::TemplateFile& file : targets::template_files()) {
      std::string path = file.path;
      // NVRTC's own stand-ins for the standard headers; headers/std has this library's.
      if (path.starts_with("cuda/nvrtc/")) continue;
      if (path.starts_with("include/")) path = path.substr(8);
      all.push_back({path, file.text});
    }
    return all;
  }();
  return headers;
}

}  // namespace hydrac::specialize
