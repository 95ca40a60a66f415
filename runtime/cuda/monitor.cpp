#include "runtime/cuda/monitor.h"

#include <fmt/format.h>

#include "runtime/cuda/library.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {

GpuMonitor::GpuMonitor(const std::string& pci_bus_id) {
  try {
    abi::nvmlDevice_t device = nullptr;
    const auto result = nvml().nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.c_str(), &device);
    if (result == abi::kNvmlSuccess)
      device_ = device;
    else
      note_ = fmt::format("no GPU metrics: NVML does not know the GPU at {}: {}", pci_bus_id,
                          nvml().nvmlErrorString(result));
  } catch (const InputError& error) {
    note_ = fmt::format("no GPU metrics: {}", error.what());
  }
}

std::optional<GpuSample> GpuMonitor::sample() const {
  if (device_ == nullptr) return std::nullopt;
  const abi::NvmlApi& api = nvml();
  const auto device = static_cast<abi::nvmlDevice_t>(device_);
  abi::nvmlUtilization_t utilization = {};
  abi::nvmlMemory_t memory = {};
  if (api.nvmlDeviceGetMemoryInfo(device, &memory) != abi::kNvmlSuccess) return std::nullopt;
  GpuSample sample;
  sample.memory_used_bytes = static_cast<std::int64_t>(memory.used);
  unsigned value = 0;
  if (api.nvmlDeviceGetUtilizationRates(device, &utilization) == abi::kNvmlSuccess)
    sample.utilization_percent = static_cast<int>(utilization.gpu);
  if (api.nvmlDeviceGetPowerUsage(device, &value) == abi::kNvmlSuccess) sample.power_watts = value * 1e-3;
  if (api.nvmlDeviceGetTemperature(device, abi::kNvmlTemperatureGpu, &value) == abi::kNvmlSuccess)
    sample.temperature_celsius = static_cast<int>(value);
  if (api.nvmlDeviceGetClockInfo(device, abi::kNvmlClockSm, &value) == abi::kNvmlSuccess)
    sample.sm_clock_mhz = static_cast<int>(value);
  if (api.nvmlDeviceGetClockInfo(device, abi::kNvmlClockMemory, &value) == abi::kNvmlSuccess)
    sample.memory_clock_mhz = static_cast<int>(value);
  return sample;
}

std::optional<double> GpuMonitor::energy_joules() const {
  unsigned long long millijoules = 0;
  if (device_ == nullptr || nvml().nvmlDeviceGetTotalEnergyConsumption(
                                static_cast<abi::nvmlDevice_t>(device_), &millijoules) != abi::kNvmlSuccess)
    return std::nullopt;
  return static_cast<double>(millijoules) * 1e-3;
}

std::optional<double> GpuMonitor::power_limit_watts() const {
  unsigned milliwatts = 0;
  if (device_ == nullptr || nvml().nvmlDeviceGetEnforcedPowerLimit(static_cast<abi::nvmlDevice_t>(device_),
                                                                   &milliwatts) != abi::kNvmlSuccess)
    return std::nullopt;
  return milliwatts * 1e-3;
}

}  // namespace hydrac::runtime::cuda
