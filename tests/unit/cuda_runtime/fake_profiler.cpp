// A profiler's library as NVTX knows them: it writes the ranges that it hears to the file $FAKE_PROFILER_LOG.
#include <cstdio>
#include <cstdlib>

#include "runtime/cuda/abi/nvtx.h"

namespace abi = hydrac::runtime::cuda::abi;

namespace {

void write(const char* what, const char* name) {
  std::FILE* file = std::fopen(std::getenv("FAKE_PROFILER_LOG"), "a");
  std::fprintf(file, "%s%s\n", what, name);
  std::fclose(file);
}

int push(const char* name) {
  write("push ", name);
  return 0;
}

int pop() {
  write("pop", "");
  return 0;
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(abi::NvtxGetExportTable tables) {
  const auto* version = static_cast<const abi::NvtxExportTableVersionInfo*>(tables(abi::kNvtxTableVersion));
  const auto* callbacks = static_cast<const abi::NvtxExportTableCallbacks*>(tables(abi::kNvtxTableCallbacks));
  if (!version || version->struct_size != sizeof *version || version->version < 2 || !callbacks || tables(2))
    return 0;
  version->set_injection_version(3);
  for (int module = abi::kNvtxModuleCore; module <= abi::kNvtxModuleSync; ++module) {
    abi::NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    if (!callbacks->module_functions(module, &table, &size) || size <= abi::kNvtxRangePop) return 0;
    if (module != abi::kNvtxModuleCore) continue;
    *table[abi::kNvtxRangePushA] = reinterpret_cast<abi::NvtxFunction>(push);
    *table[abi::kNvtxRangePop] = reinterpret_cast<abi::NvtxFunction>(pop);
  }
  return 1;
}
