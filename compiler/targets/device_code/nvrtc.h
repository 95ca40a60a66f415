// CUDA C++ source to machine code, by NVRTC; needs no GPU. With a cache of results.
#pragma once
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hydrac::device_code {

enum class CodeKind {
  cubin,  // machine code of one architecture
  ptx,    // text that the driver compiles when a module is loaded; for this architecture and newer ones
};

struct CompileRequest {
  std::string source;
  std::string name = "kernels.cu";  // in messages
  int capability = 0;               // 75, 80, 86, 89, 90, 100, 120
  // Files that #include finds: (path as it is written there, text).
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::string> options;  // such as "-DHEADS=12"; beside -std=c++20 and the architecture
  CodeKind kind = CodeKind::cubin;
};

// Resources of one kernel, as the assembler reports them. Bytes are per thread, except shared_bytes per block
// (static).
struct KernelResources {
  std::string kernel;
  int registers = 0;
  std::int64_t stack_bytes = 0;
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
  std::int64_t shared_bytes = 0;
  bool operator==(const KernelResources&) const = default;
};

struct DeviceCode {
  std::string image;                     // for Module
  std::string architecture;              // "sm_90a", "compute_75"
  std::vector<KernelResources> kernels;  // by name; empty for PTX
  std::string log;                       // the compiler's and assembler's words
  bool from_cache = false;
  double seconds = 0;  // compiling or reading took
};

// "sm_90a" where architecture-specific instructions exist (wgmma, bulk copies), else the plain "sm_80"; for
// PTX "compute_75".
std::string architecture(int capability, CodeKind kind = CodeKind::cubin);

// "13.0". Throws InputError that says what to install when NVRTC is not there.
std::string nvrtc_version();
// Capabilities that this NVRTC makes code for, ascending.
std::vector<int> nvrtc_capabilities();

// Compiles. Several threads may call it at once. Throws InputError when NVRTC is missing or does not know the
// capability, CompileError when it refuses the source.
DeviceCode compile(const CompileRequest& request);

// The same with a cache in `cache_dir`. The key is a hash of the whole request and of NVRTC's version; an
// entry has the code (.cubin or .ptx), the source and the log. A damaged entry is made again. Safe for
// several threads and processes. RunError if the folder cannot be written.
DeviceCode compile_cached(const CompileRequest& request, const std::filesystem::path& cache_dir);

// what() has the source's name, the architecture and the compile log: lines "kernels.cu(12): error: ...",
// each followed by the source line.
struct CompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace hydrac::device_code
