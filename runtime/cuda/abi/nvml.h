// The part of NVML's C ABI (libnvidia-ml.so.1, part of the driver) that this folder uses; see driver.h.
#pragma once

namespace hydrac::runtime::cuda::abi {

using nvmlReturn_t = int;
using nvmlDevice_t = struct nvmlDevice_st*;

constexpr nvmlReturn_t kNvmlSuccess = 0;
constexpr int kNvmlClockSm = 1, kNvmlClockMemory = 2;
constexpr int kNvmlTemperatureGpu = 0;

struct nvmlUtilization_t {
  unsigned gpu, memory;  // percent of time that a kernel ran, that memory was read or written
};

struct nvmlMemory_t {
  unsigned long long total, free, used;
};

// clang-format off
#define HYDRAC_NVML_FUNCTIONS(X)                                                                                 \
  X(nvmlReturn_t, nvmlInit_v2, ())                                                                               \
  X(const char*, nvmlErrorString, (nvmlReturn_t result))                                                         \
  X(nvmlReturn_t, nvmlDeviceGetHandleByPciBusId_v2, (const char* bus_id, nvmlDevice_t* device))                  \
  X(nvmlReturn_t, nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t* utilization))          \
  X(nvmlReturn_t, nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t* memory))                          \
  X(nvmlReturn_t, nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned* milliwatts))                          \
  X(nvmlReturn_t, nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned* milliwatts))                  \
  X(nvmlReturn_t, nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, unsigned long long* millijoules))   \
  X(nvmlReturn_t, nvmlDeviceGetClockInfo, (nvmlDevice_t device, int type, unsigned* mhz))                        \
  X(nvmlReturn_t, nvmlDeviceGetTemperature, (nvmlDevice_t device, int sensor, unsigned* celsius))
// clang-format on

struct NvmlApi {
#define HYDRAC_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  HYDRAC_NVML_FUNCTIONS(HYDRAC_MEMBER)
#undef HYDRAC_MEMBER
};

}  // namespace hydrac::runtime::cuda::abi
