#include "runtime/cuda/nvtx.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "runtime/cuda/abi/nvtx.h"

namespace hydrac::runtime::cuda {

namespace {

// Functions of every module, null unless a tool fills them in. hydrac calls two of one module; a tool may ask
// for all.
struct Module {
  std::array<abi::NvtxFunction, abi::kNvtxCoreSize> functions{};
  std::array<abi::NvtxFunction*, abi::kNvtxCoreSize + 1> places{};  // a null at the end
};

Module& module_of(int number) {
  static std::array<Module, abi::kNvtxModuleSync + 1> modules;
  return modules[static_cast<size_t>(number)];
}

int module_functions(int number, abi::NvtxFunctionTable* table, unsigned int* size) {
  if (number < abi::kNvtxModuleCore || number > abi::kNvtxModuleSync) return 0;
  Module& module = module_of(number);
  for (size_t i = 0; i < module.functions.size(); ++i) module.places[i] = &module.functions[i];
  if (size) *size = abi::kNvtxCoreSize;
  if (table) *table = module.places.data();
  return 1;
}

void set_injection_version(std::uint32_t) {}

const void* export_table(std::uint32_t table) {
  static const abi::NvtxExportTableCallbacks callbacks{sizeof callbacks, module_functions};
  static const abi::NvtxExportTableVersionInfo version{sizeof version, 3, 0, set_injection_version};
  return table == abi::kNvtxTableCallbacks ? static_cast<const void*>(&callbacks)
         : table == abi::kNvtxTableVersion ? &version
                                           : nullptr;
}

template <class Function>
Function function(unsigned number) {
  return reinterpret_cast<Function>(module_of(abi::kNvtxModuleCore).functions[number]);
}

// Like NVTX's own header: a tool's library that does not load is ignored.
bool load() {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  void* library = path ? ::dlopen(path, RTLD_LAZY) : nullptr;
  void* symbol = library ? ::dlsym(library, "InitializeInjectionNvtx2") : nullptr;
  if (!symbol) return false;
  return reinterpret_cast<abi::NvtxInitializeInjection>(symbol)(export_table) != 0 &&
         function<void (*)()>(abi::kNvtxRangePushA) && function<void (*)()>(abi::kNvtxRangePop);
}

}  // namespace

bool nvtx_listens() {
  static const bool listens = load();
  return listens;
}

NvtxRange::NvtxRange(const std::string& name) {
  if (nvtx_listens()) function<int (*)(const char*)>(abi::kNvtxRangePushA)(name.c_str());
}

NvtxRange::~NvtxRange() {
  if (nvtx_listens()) function<int (*)()>(abi::kNvtxRangePop)();
}

}  // namespace hydrac::runtime::cuda
