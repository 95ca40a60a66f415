// From generated C++ to code in this process: the system's compiler, a cache of its results, dlopen, and a
// trial run before first use.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

namespace hydrac::targets {

// A loaded library of kernels; stays loaded until the process ends.
struct KernelLibrary {
  void* handle = nullptr;
  bool from_cache = false;
  double seconds = 0;    // compiling took
  std::string compiler;  // the version that compiled it, as the compiler says by __VERSION__
  std::string tried;     // which kernels were, and which not
  std::string note;      // of a compiler that was wrong at first
};

// The outcome of trying a library's kernels.
struct Tried {
  std::string summary;
  std::string wrong;  // the first kernel that is not what it should be, and how; "" where all are
};
using TryKernels = std::function<Tried(const KernelLibrary&)>;

// Compiles `source` with the templates on its include path and loads it. The result is kept in `cache_dir`
// (as cache_dir.h gives it: nobody else may write there) under a hash of everything it depends on: source,
// templates, compiler, flags, and the processor that -march=native meant. Damaged entries are compiled again.
// The library is loaded from a copy in memory, so no later damage reaches it. Without a working C++ compiler,
// the newest code that any compiler made of the same source is taken. Safe for several processes at once.
//
// Code without a recorded good trial is tried. Wrong code is compiled again with less optimization. The
// outcome is kept beside the code.
//
// InputError: there is no code, and no C++ compiler or one that compiles nothing (the message says what to
// install). RunError: the compiler was killed or makes wrong code, or the folder cannot be written.
// std::logic_error with the compiler's words: it refuses our source.
KernelLibrary compile_kernels(const std::string& source, const std::filesystem::path& cache_dir,
                              const TryKernels& try_kernels);

// Address of an exported function; std::logic_error when it is missing.
void* symbol(const KernelLibrary& library, const std::string& name);

}  // namespace hydrac::targets
