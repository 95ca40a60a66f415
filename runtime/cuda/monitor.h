// A GPU's state from NVML, for metrics and reports. A machine without NVML is no error: there is a note.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace hydrac::runtime::cuda {

struct GpuSample {
  int utilization_percent = 0;         // of the last sampling period in which any kernel ran
  std::int64_t memory_used_bytes = 0;  // by all processes
  double power_watts = 0;
  int temperature_celsius = 0;
  int sm_clock_mhz = 0;
  int memory_clock_mhz = 0;
};

class GpuMonitor {
 public:
  // `pci_bus_id` as in DeviceInfo. Never throws for what the machine lacks: see note().
  explicit GpuMonitor(const std::string& pci_bus_id);

  // nullopt when NVML is missing or refuses; a field that this GPU does not report is 0.
  std::optional<GpuSample> sample() const;
  // Energy used since the driver was loaded, updated every 20 to 100 ms, and the power limit. nullopt as
  // above, or if the GPU does not report it.
  std::optional<double> energy_joules() const;
  std::optional<double> power_limit_watts() const;
  // Empty, or why there are no samples and what would give them.
  const std::string& note() const { return note_; }

 private:
  void* device_ = nullptr;
  std::string note_;
};

}  // namespace hydrac::runtime::cuda
