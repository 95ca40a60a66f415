#include "tune/machine.h"

#include <fmt/format.h>

#include <fstream>
#include <regex>

#include "runtime/cpu/blas_choice.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/monitor.h"
#include "runtime/log/units.h"
#include "runtime/parallel/cores.h"
#include "targets/target.h"

namespace hydrac::tune {

namespace {

// "model name" of the first processor, where the kernel tells it.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

// "580.65.06", or "" where the driver does not say.
std::string driver_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::smatch found;
  return std::getline(file, line) && std::regex_search(line, found, std::regex("[0-9]+\\.[0-9]+(\\.[0-9]+)?"))
             ? found.str()
             : "";
}

Machine gpu(const std::string& target) {
  const runtime::cuda::DeviceInfo device = runtime::cuda::devices().front();
  Machine machine;
  machine.identity = {
      {"target", target},
      {"name", device.name},
      {"sms", std::to_string(device.sms)},
      {"memory_gib", fmt::format("{:.1f}", static_cast<double>(device.memory_bytes) / 0x1p30)}};
  if (const auto watts = runtime::cuda::GpuMonitor(device.pci_bus_id).power_limit_watts())
    machine.identity.emplace_back("power_limit_watts", fmt::format("{:.0f}", *watts));
  if (const std::string release = driver_release(); !release.empty())
    machine.software.emplace_back("driver", release);
  machine.software.emplace_back(
      "cuda", fmt::format("{}.{}", device.driver_version / 1000, device.driver_version % 1000 / 10));
  return machine;
}

}  // namespace

Machine this_machine(const spec::Spec& spec) {
  if (!targets::find(spec.target)->is_cpu()) return gpu(spec.target);
  return {{{"target", spec.target},
           {"name", processor_name()},
           {"processor", runtime::cpu_model()},
           {"cores", std::to_string(runtime::usable_cores())}},
          {}};
}

std::string used_by_others(int utilization_percent, int64_t memory_used_bytes) {
  constexpr int64_t kOfDriverAndDesktop = int64_t{3} << 29;
  if (memory_used_bytes <= kOfDriverAndDesktop) return "";
  return fmt::format("{} of its memory and {}% of its time",
                     runtime::human_bytes(static_cast<uint64_t>(memory_used_bytes)), utilization_percent);
}

std::string used_by_others(const spec::Spec& spec) {
  if (targets::find(spec.target)->is_cpu()) return "";
  const auto sample = runtime::cuda::GpuMonitor(runtime::cuda::devices().front().pci_bus_id).sample();
  return sample ? used_by_others(sample->utilization_percent, sample->memory_used_bytes) : "";
}

std::string describe(const Facts& machine) {
  const std::string cores = find(machine, "cores");
  if (!cores.empty()) return fmt::format("{}, {} cores", find(machine, "name"), cores);
  std::string text = fmt::format("{}, {} SMs, {} GiB", find(machine, "name"), find(machine, "sms"),
                                 find(machine, "memory_gib"));
  const std::string watts = find(machine, "power_limit_watts");
  return watts.empty() ? text : fmt::format("{}, {} W", text, watts);
}

}  // namespace hydrac::tune
