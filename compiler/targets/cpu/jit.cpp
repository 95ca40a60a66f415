#include "targets/cpu/jit.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "process/run_program.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"
#include "targets/templates/templates.h"

namespace hydrac::targets {

namespace fs = std::filesystem;

namespace {

bool is_cuda(const TemplateFile& file) {
  return std::string_view(file.path).starts_with("cuda/");
}

// No contraction: a*b+c rounds twice wherever it stands, so that fusing kernels never changes a result.
constexpr std::array kFlags = {
    "-std=c++20",         "-O3",     "-march=native", "-fopenmp", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-shared", "-fPIC"};

Ended run(const std::vector<std::string>& command) {
  return run_program(command, Says::all_to_caller);
}

struct Compiler {
  std::string command;
  std::string version;
};

// $CXX if set, else the first of g++, clang++, c++ that answers.
Compiler find_compiler() {
  const char* wanted = std::getenv("CXX");
  if (wanted && *wanted) {
    const Ended answer = run({wanted, "--version"});
    if (answer.code != 0)
      throw runtime::InputError(
          fmt::format("the compiler that $CXX names, {}, does not run: {}", wanted, answer.said));
    return {wanted, answer.said};
  }
  for (const char* name : {"g++", "clang++", "c++"}) {
    if (const Ended answer = run({name, "--version"}); answer.code == 0) return {name, answer.said};
  }
  throw runtime::InputError(
      "no C++ compiler found: the cpu target compiles the code it generates.\n"
      "Install one (Debian, Ubuntu: apt-get install g++) or name yours in $CXX.");
}

// What -march=native looks at.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, text;
  while (std::getline(info, line) && !line.empty()) {  // the first processor
    if (line.starts_with("model name") || line.starts_with("flags") || line.starts_with("Features"))
      text += line + "\n";
  }
  return text;
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    throw runtime::RunError(
        fmt::format("cannot write {}: is the disk full or the folder read-only? Set $HYDRAC_CACHE to a "
                    "folder that can be written",
                    path.string()));
}

fs::path make_private_folder(const fs::path& cache_dir) {
  std::string name = (cache_dir / "build-XXXXXX").string();
  std::error_code error;
  fs::create_directories(cache_dir, error);
  if (!mkdtemp(name.data())) {
    throw runtime::RunError(
        fmt::format("cannot write into the cache folder {}: set $HYDRAC_CACHE to one that can be written",
                    cache_dir.string()));
  }
  return name;
}

// Everything into a folder of its own, then one rename: other processes see a whole library or none.
void build(const Compiler& compiler, const std::string& source, const fs::path& cache_dir,
           const fs::path& library) {
  const fs::path folder = make_private_folder(cache_dir);
  for (const TemplateFile& file : template_files()) {
    if (is_cuda(file)) continue;
    const fs::path path = folder / "templates" / file.path;
    fs::create_directories(path.parent_path());
    write_file(path, file.text);
  }
  write_file(folder / "kernels.cpp", source);
  std::vector<std::string> command = {compiler.command};
  command.insert(command.end(), kFlags.begin(), kFlags.end());
  command.insert(command.end(),
                 {"-I" + (folder / "templates").string(), "-I" + (folder / "templates/include").string(),
                  (folder / "kernels.cpp").string(), "-o", (folder / "kernels.so").string()});
  const Ended ended = run(command);
  if (ended.code != 0) {
    throw std::logic_error(
        fmt::format("the C++ compiler refused generated code, kept in {}:\n{}", folder.string(), ended.said));
  }
  fs::rename(folder / "kernels.so", library);
  fs::path source_beside = library;
  fs::rename(folder / "kernels.cpp", source_beside.replace_extension(".cpp"));
  fs::remove_all(folder);
}

}  // namespace

KernelLibrary compile_kernels(const std::string& source, const fs::path& cache_dir) {
  const auto start = std::chrono::steady_clock::now();
  const Compiler compiler = find_compiler();
  runtime::Hash64 key;
  for (const std::string& part :
       {source, compiler.command, compiler.version, fmt::format("{}", fmt::join(kFlags, " ")), processor()}) {
    key.add(part);
  }
  for (const TemplateFile& file : template_files()) {
    if (!is_cuda(file)) key.add(std::string_view(file.path)).add(std::string_view(file.text));
  }

  KernelLibrary library;
  const fs::path path = cache_dir / fmt::format("{:016x}.so", key.value());
  library.from_cache = fs::exists(path);
  if (!library.from_cache) build(compiler, source, cache_dir, path);
  library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library.handle && library.from_cache) {  // a cache that something damaged
    build(compiler, source, cache_dir, path);
    library.from_cache = false;
    library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (!library.handle) throw runtime::RunError(fmt::format("cannot load generated code: {}", dlerror()));
  library.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return library;
}

void* symbol(const KernelLibrary& library, const std::string& name) {
  void* address = dlsym(library.handle, name.c_str());
  if (!address) throw std::logic_error("generated code does not export " + name);
  return address;
}

}  // namespace hydrac::targets
