#include "specialize/check.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace hydrac::specialize {

namespace {

bool is_cuda(const std::string& path) {
  return path.ends_with(".cu") || path.ends_with(".cuh");
}
bool is_source(const std::string& path) {
  return path.ends_with(".cu") || path.ends_with(".cpp");
}
bool is_code(const std::string& path) {
  return is_source(path) || path.ends_with(".cuh") || path.ends_with(".h") || path.ends_with(".inc");
}

}  // namespace

void check_parses(const EmittedProgram& program) {
  std::vector<SourceFile> headers;
  for (const SourceFile& file : program.files) {
    if (is_code(file.path)) headers.push_back(file);
  }
  std::set<std::string> parsed;
  std::vector<Problem> problems;
  const auto check = [&](const SourceFile& file) {
    ParseRequest request{file, is_cuda(file.path) ? Dialect::cuda : Dialect::cpp, program.capability,
                         headers};
    request.host_library = request.refuses_unused = true;
    request.system_headers = program.runtime_headers;
    ParseResult result = parse(request);
    parsed.insert(result.files.begin(), result.files.end());
    for (Problem& problem : result.problems) {
      if (std::find(problems.begin(), problems.end(), problem) == problems.end())
        problems.push_back(std::move(problem));
    }
  };
  for (const SourceFile& file : program.files) {
    if (is_source(file.path)) check(file);
  }
  for (const SourceFile& file : program.files) {
    if (is_code(file.path) && !parsed.contains(file.path)) check(file);
  }
  if (problems.empty()) return;
  std::string message =
      "hydrac would write code that does not parse or has a part that nothing uses, which is an error of "
      "hydrac:";
  for (const Problem& problem : problems) message += "\n  " + text_of(problem);
  throw std::logic_error(message);
}

}  // namespace hydrac::specialize
