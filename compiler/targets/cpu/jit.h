// Generated C++ to code in this process: the system's compiler, a cache of its results, dlopen.
#pragma once
#include <filesystem>
#include <string>

namespace hydrac::targets {

// A loaded library of kernels; stays loaded until the process ends.
struct KernelLibrary {
  void* handle = nullptr;
  bool from_cache = false;
  double seconds = 0;  // compiling took
};

// Compiles `source` with the templates on its include path and loads it. The result is kept in `cache_dir`
// under a hash of everything it depends on: source, templates, compiler, flags, and the processor that
// -march=native meant. Safe for several processes at once. Throws runtime::InputError when there is no C++
// compiler (the message says what to install), and std::logic_error with the compiler's words when it refuses
// our source.
KernelLibrary compile_kernels(const std::string& source, const std::filesystem::path& cache_dir);

// Address of an exported function; std::logic_error when it is missing.
void* symbol(const KernelLibrary& library, const std::string& name);

}  // namespace hydrac::targets
