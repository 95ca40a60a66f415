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
  // What #include finds: (path as it is written there, text).
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::string> options;  // such as "-DHEADS=12"; beside -std=c++20 and the architecture
  CodeKind kind = CodeKind::cubin;
};

// What one kernel takes, as the assembler reports it. Bytes are per thread, but shared_bytes per block
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

// "sm_90a", where its own instructions (wgmma, bulk copies) exist; for others the plain "sm_80"; for PTX
// "compute_75".
std::string architecture(int capability, CodeKind kind = CodeKind::cubin);

// "13.0". Throws InputError that says what to install when NVRTC is not there.
std::string nvrtc_version();
// Capabilities that this NVRTC makes code for, ascending.
std::vector<int> nvrtc_capabilities();

// Compiles. Several threads may call it at once. Throws InputError when NVRTC is missing or does not know the
// capability, CompileError when it refuses the source.
DeviceCode compile(const CompileRequest& request);

// The same, but what `cache_dir` remembers is not compiled again. Kept there under a hash of all of the
// request and of NVRTC's version: the code (.cubin or .ptx), the source and the log. A damaged entry is made
// anew. Safe for several threads and processes. Throws RunError when the folder cannot be written.
DeviceCode compile_cached(const CompileRequest& request, const std::filesystem::path& cache_dir);

// what() is the source's name, the architecture and the compile log: lines "kernels.cu(12): error: ...", each
// followed by the line of source that it means.
struct CompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace hydrac::device_code
