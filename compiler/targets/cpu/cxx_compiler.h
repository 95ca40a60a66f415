// The C++ compiler of this machine: which it is, and code compiled by it as a shared library.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace hydrac::targets {

struct CxxCompiler {
  std::vector<std::string> command;  // {"ccache", "g++"}; empty: none runs
  std::string version;               // all that --version prints
  std::string missing;               // where none runs: what to tell the user
};

// $CXX, split into words as make does, if it is set; else the first of g++, clang++, c++ that answers.
CxxCompiler find_cxx_compiler();

// How much the compiler may do: less where it did too much.
enum class Effort { usual, careful };

// Flags that decide what code comes out.
std::string cxx_flags(Effort effort);

// Compiles `source` to `library`; temporary files go beside `source`. A copy of `source` stays at `kept`, and
// the error names it if the compiler refuses it. Errors as compile_kernels() of jit.h.
void compile_library(const CxxCompiler& compiler, Effort effort, const std::filesystem::path& source,
                     const std::vector<std::filesystem::path>& includes, const std::filesystem::path& library,
                     const std::filesystem::path& kept);

}  // namespace hydrac::targets
