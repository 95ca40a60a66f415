#include "targets/cpu/jit.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/cache/cache_dir.h"
#include "runtime/cache/cache_warning.h"
#include "runtime/cache/sealed_file.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"
#include "targets/cpu/build_folder.h"
#include "targets/cpu/cxx_compiler.h"
#include "targets/templates/templates.h"

namespace hydrac::targets {

namespace fs = std::filesystem;

namespace {

constexpr const char* kVersionFunction = "hydrac_kernels_compiler";

bool is_cuda(const TemplateFile& file) {
  return std::string_view(file.path).starts_with("cuda/");
}

// The properties of the processor that -march=native depends on.
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

// The file of compiled code. The names for all compilers of the same source begin alike.
struct Entry {
  std::string of_source, of_compiler;
  fs::path in(const fs::path& cache_dir) const { return cache_dir / (of_source + of_compiler + ".so"); }
};

Entry entry_of(const std::string& source, const CxxCompiler& compiler) {
  runtime::Hash64 of_source, of_compiler;
  of_source.add(source).add(cxx_flags(Effort::usual)).add(cxx_flags(Effort::careful)).add(processor());
  for (const TemplateFile& file : template_files()) {
    if (!is_cuda(file)) of_source.add(std::string_view(file.path)).add(std::string_view(file.text));
  }
  for (const std::string& word : compiler.command) of_compiler.add(word);
  of_compiler.add(compiler.version);
  return {fmt::format("{:016x}-", of_source.value()), fmt::format("{:016x}", of_compiler.value())};
}

struct Code {
  std::string bytes;
  fs::path file;
};

// Files of a build folder: path below it and text.
using Sources = std::map<fs::path, std::string>;

Sources sources_of(const std::string& kernels) {
  Sources sources = {{"kernels.cpp", kernels}};
  for (const TemplateFile& file : template_files()) {
    if (!is_cuda(file)) sources[fs::path("templates") / file.path] = file.text;
  }
  return sources;
}

bool are_unchanged(const fs::path& folder, const Sources& sources) {
  return std::ranges::all_of(sources, [&](const auto& source) {
    return runtime::read_whole(folder / source.first) == source.second;
  });
}

// nullopt, after a warning, where something changed the sources meanwhile: what came of them is of no use.
std::optional<std::string> compile_once(const CxxCompiler& compiler, Effort effort, const Sources& sources,
                                        const fs::path& cache_dir, const fs::path& kept) {
  const BuildFolder folder(cache_dir);
  for (const auto& [name, text] : sources) {
    fs::create_directories((folder.path() / name).parent_path());
    write_file(folder.path() / name, text);
  }
  const fs::path templates = folder.path() / "templates", library = folder.path() / "kernels.so";
  try {
    compile_library(compiler, effort, folder.path() / "kernels.cpp", {templates, templates / "include"},
                    library, kept);
  } catch (const std::exception&) {
    if (are_unchanged(folder.path(), sources)) throw;
  }
  std::optional<std::string> code = runtime::read_whole(library);
  if (code && are_unchanged(folder.path(), sources)) return code;
  runtime::warn_of_damage(folder.path(), "something else changed its files while they were compiled");
  return std::nullopt;
}

std::string compile_in(const fs::path& folder, const CxxCompiler& compiler, Effort effort,
                       const std::string& source, const fs::path& kept) {
  for (int attempt = 0; attempt < 3; ++attempt)
    if (std::optional<std::string> code = compile_once(compiler, effort, sources_of(source), folder, kept))
      return std::move(*code);
  throw runtime::RunError(
      fmt::format("files in the cache folder {} change while they are compiled: is the disk failing? Set "
                  "$HYDRAC_CACHE to a folder on another",
                  folder.string()));
}

// True if the folder takes a file of the size of a library.
bool can_be_written(const fs::path& folder) {
  const fs::path probe = folder / fmt::format("probe-{}", ::getpid());
  const bool written = runtime::write_whole(probe, std::string(size_t{4} << 20, ' '), /*durable=*/false);
  ::unlink(probe.c_str());
  return written;
}

// The code of the library, which the cache now has too, where that can be written.
Code build(const CxxCompiler& compiler, Effort effort, const std::string& source, const fs::path& cache_dir,
           const fs::path& library) {
  fs::path kept = library;
  kept.replace_extension(".cpp");
  runtime::write_whole(kept, source, /*durable=*/false);  // for people
  Code code{{}, library};
  try {
    code.bytes = compile_in(cache_dir, compiler, effort, source, kept);
  } catch (const std::exception&) {
    if (can_be_written(cache_dir)) throw;
    code.bytes = compile_in(runtime::temporary_cache(), compiler, effort, source, kept);
  }
  if (!runtime::write_sealed(library, code.bytes)) runtime::warn_of_unwritable_cache(cache_dir);
  return code;
}

// Code of the same source by whatever compiler, the newest first.
std::optional<Code> code_of_any_compiler(const fs::path& cache_dir, const std::string& of_source) {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (fs::directory_iterator entry(cache_dir, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(of_source) && name.ends_with(".so"))
      found.emplace_back(fs::last_write_time(entry->path(), ignored), entry->path());
  }
  std::ranges::sort(found, std::greater());
  for (const auto& [time, path] : found) {
    if (auto code = runtime::read_sealed(path)) return Code{std::move(*code), path};
  }
  return std::nullopt;
}

// Loads the checked copy: the file could be damaged while it is mapped, which would kill the process. Two
// libraries must not share a name, and the name contains the descriptor, so it stays open.
void* load(const Code& code) {
  const int fd = ::memfd_create("hydrac-kernels", MFD_CLOEXEC);
  std::string_view rest = code.bytes;
  while (fd >= 0 && !rest.empty()) {
    const ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    rest.remove_prefix(static_cast<size_t>(written));
  }
  const std::string name = fmt::format("/proc/self/fd/{}", fd);
  void* handle = fd >= 0 && rest.empty() ? dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  // If the system forbids code in memory, or so much of it (ulimit -f), or has no /proc.
  if (!handle) handle = dlopen(code.file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    throw runtime::RunError(
        fmt::format("cannot load generated code: {}", reason ? reason : "unknown reason"));
  }
  return handle;
}

KernelLibrary loaded(const Code& code, bool from_cache) {
  KernelLibrary library;
  library.handle = load(code);
  library.from_cache = from_cache;
  library.compiler = reinterpret_cast<const char* (*)()>(symbol(library, kVersionFunction))();
  return library;
}

// The outcome of a trial beside the code: a line with what was tried, and one with the note, if there is one.
class Outcome {
 public:
  explicit Outcome(const fs::path& code) : path_(fs::path(code).replace_extension(".tried")) {}

  bool recall(KernelLibrary& library) const {
    const std::optional<std::string> text = runtime::read_sealed(path_);
    if (!text) return false;
    std::istringstream lines(*text);
    std::getline(lines, library.tried);
    std::getline(lines, library.note);
    return true;
  }
  void keep(const KernelLibrary& library) const {
    runtime::write_sealed(path_, library.tried + "\n" + library.note);
  }

 private:
  fs::path path_;
};

// Code from the cache that is right, as was found before or is found now.
std::optional<KernelLibrary> right_code_of_cache(const Code& code, const TryKernels& try_kernels) {
  KernelLibrary library = loaded(code, /*from_cache=*/true);
  const Outcome outcome(code.file);
  if (outcome.recall(library)) return library;
  const Tried tried = try_kernels(library);
  if (!tried.wrong.empty()) return std::nullopt;
  library.tried = tried.summary;
  outcome.keep(library);
  return library;
}

KernelLibrary right_code_of_compiler(const CxxCompiler& compiler, const std::string& source,
                                     const fs::path& cache_dir, const fs::path& path,
                                     const TryKernels& try_kernels) {
  std::string found;
  for (const Effort effort : {Effort::usual, Effort::careful}) {
    const Code code = build(compiler, effort, source, cache_dir, path);
    KernelLibrary library = loaded(code, /*from_cache=*/false);
    const Tried tried = try_kernels(library);
    if (tried.wrong.empty()) {
      library.tried = tried.summary;
      if (!found.empty())
        library.note = fmt::format("{}; compiled with {} instead", found, cxx_flags(effort));
      Outcome(path).keep(library);
      return library;
    }
    found += fmt::format("{}the C++ compiler {} ({}) compiles kernel {}, with {}", found.empty() ? "" : "\n",
                         fmt::join(compiler.command, " "), library.compiler, tried.wrong, cxx_flags(effort));
  }
  std::error_code ignored;
  fs::remove(path, ignored);
  throw runtime::RunError(found + "\nName another compiler in $CXX.");
}

}  // namespace

KernelLibrary compile_kernels(const std::string& kernels, const fs::path& cache_dir,
                              const TryKernels& try_kernels) {
  const auto start = std::chrono::steady_clock::now();
  const std::string source =
      kernels +
      fmt::format("\nextern \"C\" const char* {}() {{\n  return __VERSION__;\n}}\n", kVersionFunction);
  const CxxCompiler compiler = find_cxx_compiler();
  const Entry entry = entry_of(source, compiler);
  const fs::path path = entry.in(cache_dir);
  std::optional<Code> code;
  if (compiler.command.empty()) {
    code = code_of_any_compiler(cache_dir, entry.of_source);
  } else if (std::optional<std::string> bytes = runtime::read_sealed(path)) {
    code = {std::move(*bytes), path};
  }

  std::optional<KernelLibrary> library;
  if (code) library = right_code_of_cache(*code, try_kernels);
  if (!library && compiler.command.empty()) throw runtime::InputError(compiler.missing);
  if (!library) library = right_code_of_compiler(compiler, source, cache_dir, path, try_kernels);
  if (!library->note.empty()) library->compiler += ", " + cxx_flags(Effort::careful);
  library->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return *library;
}

void* symbol(const KernelLibrary& library, const std::string& name) {
  void* address = dlsym(library.handle, name.c_str());
  if (!address) throw std::logic_error("generated code does not export " + name);
  return address;
}

}  // namespace hydrac::targets
