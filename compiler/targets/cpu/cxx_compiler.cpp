#include "targets/cpu/cxx_compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "process/run_program.h"
#include "runtime/error.h"

namespace hydrac::targets {

namespace fs = std::filesystem;

namespace {

// No contraction: a*b+c rounds twice wherever it stands, so that fusing kernels never changes a result.
constexpr std::array kFlags = {"-std=c++20",      "-march=native",      "-fopenmp", "-ffp-contract=off",
                               "-fno-math-errno", "-fno-trapping-math", "-shared",  "-fPIC"};

constexpr const char* kInstall = "Install one (Debian, Ubuntu: apt-get install g++) or name yours in $CXX.";

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

Ended run_with(std::vector<std::string> command, const std::vector<std::string>& arguments) {
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command, Says::all_to_caller);
}

std::string shown(const CxxCompiler& compiler) {
  return fmt::format("{}", fmt::join(compiler.command, " "));
}

// The first line with an error, else the first line: it names the mistake, the next ones its consequences.
std::string first_error(const std::string& said) {
  std::istringstream lines(said);
  std::string line, first;
  while (std::getline(lines, line)) {
    if (line.find("error") != std::string::npos) return line;
    if (first.empty()) first = line;
  }
  return first.empty() ? "it says nothing" : first;
}

std::vector<std::string> flags_of(Effort effort) {
  std::vector<std::string> flags = {effort == Effort::usual ? "-O3" : "-O2"};
#if defined(__x86_64__)
  if (effort == Effort::careful) flags.push_back("-mprefer-vector-width=256");
#endif
  flags.insert(flags.end(), kFlags.begin(), kFlags.end());
  return flags;
}

Ended compile(const CxxCompiler& compiler, Effort effort, const fs::path& source,
              const std::vector<fs::path>& includes, const fs::path& library) {
  std::vector<std::string> arguments = flags_of(effort);
  for (const fs::path& include : includes) arguments.push_back("-I" + include.string());
  arguments.insert(arguments.end(), {source.string(), "-o", library.string()});
  // Bypasses ccache, which ignores that -march=native differs between machines; hydrac caches the result
  // itself.
  std::vector<std::string> command = {"env", "CCACHE_DISABLE=1"};
  command.insert(command.end(), compiler.command.begin(), compiler.command.end());
  return run_with(command, arguments);
}

bool is_written(const fs::path& library) {
  std::error_code error;
  return fs::file_size(library, error) > 0 && !error;
}

// The signal that killed it; "" if it ended by itself. If only a part of g++ or clang++ is killed, the
// driver's output says so.
std::string killed(const Ended& ended) {
  if (ended.signal != 0) return fmt::format("signal {} ({})", ended.signal, strsignal(ended.signal));
  for (const char* words : {"signal terminated program", "unable to execute command: Killed"}) {
    if (ended.said.find(words) != std::string::npos) return first_error(ended.said);
  }
  return "";
}

// The reason why the compiler compiles nothing at all; "" if it compiles a line of C++.
std::string general_failure(const CxxCompiler& compiler, const fs::path& folder) {
  const fs::path source = folder / "probe.cpp", library = folder / "probe.so";
  std::ofstream(source)
      << "#include <omp.h>\n#include <cmath>\n"
         "extern \"C\" double probe(double x) { return std::exp(x) + omp_get_max_threads(); }\n";
  const Ended ended = compile(compiler, Effort::usual, source, {}, library);
  if (ended.code == 0 && is_written(library)) return "";
  return ended.code == 0 ? "it ends well but writes no library" : first_error(ended.said);
}

}  // namespace

CxxCompiler find_cxx_compiler() {
  const char* wanted = std::getenv("CXX");
  if (const auto command = words_of(wanted ? wanted : ""); !command.empty()) {
    const Ended answer = run_with(command, {"--version"});
    if (answer.code == 0) return {command, answer.said, ""};
    return {
        {},
        "",
        fmt::format("the compiler that $CXX names, {}, does not run: {}\n{}", wanted,
                    answer.said.empty() ? runtime::describe(answer) : first_error(answer.said), kInstall)};
  }
  for (const char* name : {"g++", "clang++", "c++"}) {
    if (const Ended answer = run_with({name}, {"--version"}); answer.code == 0)
      return {{name}, answer.said, ""};
  }
  return {{},
          "",
          fmt::format("no C++ compiler found: the cpu target compiles the code it generates.\n{}", kInstall)};
}

std::string cxx_flags(Effort effort) {
  return fmt::format("{}", fmt::join(flags_of(effort), " "));
}

void compile_library(const CxxCompiler& compiler, Effort effort, const fs::path& source,
                     const std::vector<fs::path>& includes, const fs::path& library, const fs::path& kept) {
  const Ended ended = compile(compiler, effort, source, includes, library);
  if (ended.code == 0 && is_written(library)) return;
  if (const std::string how = killed(ended); !how.empty()) {
    throw runtime::RunError(fmt::format(
        "the C++ compiler {} was killed: {}; is the machine short of memory? Run it again, or name "
        "another compiler in $CXX",
        shown(compiler), how));
  }
  if (ended.said.find("No space left on device") != std::string::npos) {
    throw runtime::RunError(
        fmt::format("the C++ compiler {} found a full disk: {}\nfree some space, or set "
                    "$HYDRAC_CACHE and $TMPDIR to folders on another disk",
                    shown(compiler), first_error(ended.said)));
  }
  if (const std::string failure = general_failure(compiler, source.parent_path()); !failure.empty()) {
    throw runtime::InputError(
        fmt::format("the C++ compiler {} cannot be used: {}\n{}", shown(compiler), failure, kInstall));
  }
  if (ended.code == 0)
    throw runtime::RunError(fmt::format("the C++ compiler {} wrote no library", shown(compiler)));
  throw std::logic_error(fmt::format("the C++ compiler {} refused generated code, kept in {}:\n{}",
                                     shown(compiler), kept.string(), ended.said));
}

}  // namespace hydrac::targets
