#include "targets/cuda/identify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace hydrac::targets {

namespace {

// "NVIDIA GeForce GTX 1650 Ti" -> "nvidiageforcegtx1650ti"
std::string squeezed(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

// A target's name without the memory that it may end with: "a100" of "a100-40gb".
std::string_view without_memory(std::string_view name) {
  return name.ends_with("gb") ? name.substr(0, name.rfind('-')) : name;
}

// Drivers keep a little memory, and some GPUs also exist with a quarter more.
bool is_its_memory(const Target& target, double gib) {
  return gib > 0.9 * target.memory_gib && gib < 1.3 * target.memory_gib;
}

}  // namespace

const Target* target_of(const runtime::cuda::DeviceInfo& device) {
  const std::string name = squeezed(device.name);
  const double gib = static_cast<double>(device.memory_bytes) / 0x1p30;
  const Target* best = nullptr;
  for (const Target& target : all()) {
    if (target.is_cpu() || target.capability != device.capability || !is_its_memory(target, gib)) continue;
    const bool named = name.find(squeezed(without_memory(target.name))) != std::string::npos;
    if (named && (!best || target.name.size() > best->name.size())) best = &target;
  }
  return best ? best : find(fmt::format("sm_{}", device.capability));
}

}  // namespace hydrac::targets
