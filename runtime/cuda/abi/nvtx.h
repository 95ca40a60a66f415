// The interface between NVTX and a tool's library: what of nvtxTypes.h a program needs that offers ranges.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hydrac::runtime::cuda::abi {

using NvtxFunction = void (*)();
// Places of function pointers, by a callback's number; the tool fills in those that it wants to be called.
using NvtxFunctionTable = NvtxFunction**;
using NvtxGetExportTable = const void* (*)(std::uint32_t table);
using NvtxInitializeInjection = int (*)(NvtxGetExportTable);  // "InitializeInjectionNvtx2"

struct NvtxExportTableCallbacks {
  std::size_t struct_size;
  // 1 where there is such a module.
  int (*module_functions)(int module, NvtxFunctionTable* table, unsigned int* size);
};

struct NvtxExportTableVersionInfo {
  std::size_t struct_size;
  std::uint32_t version, reserved;
  void (*set_injection_version)(std::uint32_t version);
};

inline constexpr std::uint32_t kNvtxTableCallbacks = 1, kNvtxTableVersion = 3;
inline constexpr int kNvtxModuleCore = 1, kNvtxModuleSync = 6;
inline constexpr unsigned kNvtxRangePushA = 9;  // int (*)(const char* message)
inline constexpr unsigned kNvtxRangePop = 11;   // int (*)()
inline constexpr unsigned kNvtxCoreSize = 16;   // the most functions that a module has

}  // namespace hydrac::runtime::cuda::abi
