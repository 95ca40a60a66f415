// A Program's kernels as machine code for one GPU architecture.
#pragma once
#include <filesystem>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "program/program.h"
#include "targets/device_code/module.h"
#include "targets/device_code/nvrtc.h"

namespace hydrac::targets {

// Headers for device code, (path, text): the CUDA templates, and substitutes for the few standard
// headers under their usual names.
std::vector<std::pair<std::string, std::string>> device_headers();

// The code of each kernel, by position in Program::kernels, compiled in parallel; each is a translation unit
// of its own, so that what did not change comes from the cache. Needs NVRTC, but no GPU. `capability`: 90 for
// sm_90. `kind`: PTX runs on newer GPUs too. Throws device_code::CompileError: our own bug.
std::vector<device_code::DeviceCode> compile_kernels(const program::Program& program, int capability,
                                                     device_code::CodeKind kind,
                                                     const std::filesystem::path& cache_dir);

// Name, registers, spills, shared memory and launch of every kernel, a line each, as the compiler reports
// them.
std::string kernel_table(const program::Program& program, const std::vector<device_code::DeviceCode>& code);

// compile_kernels() on threads of its own, which leave one of this machine's processors to the caller.
// `program` must stay as it is meanwhile.
struct CompiledKernels {
  std::vector<device_code::DeviceCode> code;
  double seconds = 0;  // that compiling took
};
std::future<CompiledKernels> start_compiling(const program::Program& program, int capability,
                                             device_code::CodeKind kind,
                                             const std::filesystem::path& cache_dir);

// Loaded kernels, by position in Program::kernels.
struct LoadedKernels {
  std::vector<device_code::Module> modules;
  std::vector<device_code::Kernel> kernels;
  int from_cache = 0;
  double seconds = 0;  // that compiling and loading took
};
LoadedKernels load_kernels(const program::Program& program, const CompiledKernels& compiled);

}  // namespace hydrac::targets
