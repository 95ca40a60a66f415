// Parses C++ and CUDA with Clang: sources and headers come from memory, nothing is read from the disk, and no
// system header, CUDA toolkit or compiler need be installed. Includes no header of Clang.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::specialize {

// A file as an #include or a message names it.
struct SourceFile {
  std::string path;
  std::string text;
};

enum class Dialect {
  cpp,   // C++20 for `processor`, with GNU's extensions
  cuda,  // the same for device and host: kernels, PTX, launches <<<>>>
};

struct ParseRequest {
  SourceFile source;
  Dialect dialect = Dialect::cpp;
  int capability = 90;  // the GPU that `__CUDA_ARCH__` stands for: 10 * major + minor
  // Headers for #include, in addition to this library's stand-ins: <cstdint>, <cstddef> and the others of
  // headers/std, and for CUDA the toolkit's predeclared names.
  std::vector<SourceFile> headers;
  // Macros with their values, such as {"__forceinline__", "inline"}.
  std::vector<std::pair<std::string, std::string>> macros;
  // For cpp: whose macros (__AVX2__) and registers there are, by Clang's names, such as x86-64-v3.
  std::string processor = "x86-64";
  // Also the parts of the standard library, the CUDA runtime and NVTX that host code of emitted programs and
  // the runtime's public headers use: headers/host.
  bool host_library = false;
  // Others' headers for #include: `refuses_unused` does not look at them.
  std::vector<SourceFile> system_headers = {};
  // Unused parameters, variables, functions, private members and local types are problems, and so are the
  // findings of needless.h.
  bool refuses_unused = false;
};

// An error from Clang; line and column count from 1 and are 0 for one without a place.
struct Problem {
  std::string file;
  int line = 0;
  int column = 0;
  std::string message;
  bool operator==(const Problem&) const = default;
};

// "kernels/attention.cuh:12:5: use of undeclared identifier 'x'"
std::string text_of(const Problem& problem);

struct ParseResult {
  std::vector<Problem> problems;   // in order; none: the source parses and type checks completely
  std::vector<std::string> files;  // that were read, the source among them
};

// Thread-safe.
ParseResult parse(const ParseRequest& request);
std::vector<Problem> problems_of(const ParseRequest& request);

// The files of templates/ under the names that code includes them by.
const std::vector<SourceFile>& template_headers();

// Stand-ins for the standard library and for CUDA, by path below headers/.
const std::vector<SourceFile>& stand_in_headers();

}  // namespace hydrac::specialize
