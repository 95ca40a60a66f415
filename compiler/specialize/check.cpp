#include "specialize/check.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>

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

// Parses as many at a time as there are processors.
std::vector<ParseResult> parse_all(const EmittedProgram& program, const std::vector<SourceFile>& headers,
                                   const std::vector<const SourceFile*>& files) {
  std::vector<ParseResult> results(files.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next++) < files.size();) {
      const Dialect dialect = is_cuda(files[i]->path) ? Dialect::cuda : Dialect::cpp;
      ParseRequest request{*files[i], dialect, program.capability, headers};
      request.host_library = request.refuses_unused = true;
      request.system_headers = program.runtime_headers;
      results[i] = parse(request);
    }
  };
  std::vector<std::future<void>> workers;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    workers.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& worker : workers) worker.get();
  return results;
}

}  // namespace

void check_parses(const EmittedProgram& program) {
  std::vector<SourceFile> headers;
  for (const SourceFile& file : program.files) {
    if (is_code(file.path)) headers.push_back(file);
  }
  std::set<std::string> parsed;
  std::vector<Problem> problems;
  const auto check = [&](const std::vector<const SourceFile*>& files) {
    for (ParseResult& result : parse_all(program, headers, files)) {
      parsed.insert(result.files.begin(), result.files.end());
      for (Problem& problem : result.problems) {
        if (std::find(problems.begin(), problems.end(), problem) == problems.end())
          problems.push_back(std::move(problem));
      }
    }
  };
  std::vector<const SourceFile*> sources, alone;
  for (const SourceFile& file : program.files) {
    if (is_source(file.path)) sources.push_back(&file);
  }
  check(sources);
  for (const SourceFile& file : program.files) {
    if (is_code(file.path) && !parsed.contains(file.path)) alone.push_back(&file);
  }
  check(alone);
  if (problems.empty()) return;
  std::string message =
      "hydrac would write code that does not parse or has a part that nothing uses, which is an error of "
      "hydrac:";
  for (const Problem& problem : problems) message += "\n  " + text_of(problem);
  throw std::logic_error(message);
}

}  // namespace hydrac::specialize
