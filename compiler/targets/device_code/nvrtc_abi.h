// The part of NVRTC's C ABI (libnvrtc.so.12 and .13) that this folder uses; see runtime/cuda/abi/driver.h.
#pragma once
#include <cstddef>

namespace hydrac::device_code::abi {

using nvrtcResult = int;
using nvrtcProgram = struct _nvrtcProgram*;

constexpr nvrtcResult kNvrtcSuccess = 0;

// clang-format off
#define HYDRAC_NVRTC_FUNCTIONS(X)                                                                                \
  X(nvrtcResult, nvrtcVersion, (int* major, int* minor))                                                         \
  X(const char*, nvrtcGetErrorString, (nvrtcResult result))                                                      \
  X(nvrtcResult, nvrtcGetNumSupportedArchs, (int* count))                                                        \
  X(nvrtcResult, nvrtcGetSupportedArchs, (int* architectures))                                                   \
  X(nvrtcResult, nvrtcCreateProgram, (nvrtcProgram* program, const char* source, const char* name, int headers,  \
                                      const char* const* header_texts, const char* const* header_names))         \
  X(nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram* program))                                                   \
  X(nvrtcResult, nvrtcCompileProgram, (nvrtcProgram program, int count, const char* const* options))             \
  X(nvrtcResult, nvrtcGetPTXSize, (nvrtcProgram program, std::size_t* bytes))                                    \
  X(nvrtcResult, nvrtcGetPTX, (nvrtcProgram program, char* text))                                                \
  X(nvrtcResult, nvrtcGetCUBINSize, (nvrtcProgram program, std::size_t* bytes))                                  \
  X(nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram program, char* image))                                             \
  X(nvrtcResult, nvrtcGetProgramLogSize, (nvrtcProgram program, std::size_t* bytes))                             \
  X(nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram program, char* text))
// clang-format on

struct NvrtcApi {
#define HYDRAC_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  HYDRAC_NVRTC_FUNCTIONS(HYDRAC_MEMBER)
#undef HYDRAC_MEMBER
};

}  // namespace hydrac::device_code::abi

namespace hydrac::device_code {

// Opened by the first call. Throws InputError that says what to install when NVRTC is missing or too old.
const abi::NvrtcApi& nvrtc();

}  // namespace hydrac::device_code
