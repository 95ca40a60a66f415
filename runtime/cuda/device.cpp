#include "runtime/cuda/device.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/cuda/library.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {
namespace {

DeviceInfo describe(int ordinal) {
  const abi::DriverApi& api = driver();
  abi::CUdevice device = 0;
  check(api.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  const auto attribute = [&](int which) {
    int value = 0;
    check(api.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  DeviceInfo info;
  info.ordinal = ordinal;
  char text[256] = {};
  check(api.cuDeviceGetName(text, sizeof text, device), "cuDeviceGetName");
  info.name = text;
  check(api.cuDeviceGetPCIBusId(text, sizeof text, device), "cuDeviceGetPCIBusId");
  info.pci_bus_id = text;
  std::size_t bytes = 0;
  check(api.cuDeviceTotalMem_v2(&bytes, device), "cuDeviceTotalMem");
  info.memory_bytes = static_cast<std::int64_t>(bytes);
  info.capability = attribute(abi::kDeviceCapabilityMajor) * 10 + attribute(abi::kDeviceCapabilityMinor);
  info.sms = attribute(abi::kDeviceMultiprocessors);
  info.l2_bytes = attribute(abi::kDeviceL2Bytes);
  info.shared_bytes = attribute(abi::kDeviceSharedBytesOptin);
  check(api.cuDriverGetVersion(&info.driver_version), "cuDriverGetVersion");
  return info;
}

std::pair<std::size_t, std::size_t> free_and_total() {
  std::size_t free = 0, total = 0;
  check(driver().cuMemGetInfo_v2(&free, &total), "cuMemGetInfo");
  return {free, total};
}

}  // namespace

std::vector<DeviceInfo> devices() {
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "cuDeviceGetCount");
  std::vector<DeviceInfo> found;
  for (int ordinal = 0; ordinal < count; ++ordinal) found.push_back(describe(ordinal));
  return found;
}

Context::Context(int ordinal) {
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    throw InputError(
        fmt::format("there is no GPU {}: CUDA sees {}, counted from 0. CUDA_VISIBLE_DEVICES may hide some.",
                    ordinal, count));
  }
  device_ = describe(ordinal);
  check(driver().cuDevicePrimaryCtxRetain(&context_, ordinal),
        fmt::format("cuDevicePrimaryCtxRetain of GPU {}", ordinal));
  make_current();
}

Context::~Context() {
  driver().cuDevicePrimaryCtxRelease_v2(device_.ordinal);
}

void Context::make_current() const {
  check(driver().cuCtxSetCurrent(context_), "cuCtxSetCurrent");
}

void Context::synchronize() const {
  check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
}

std::int64_t Context::free_bytes() const {
  return static_cast<std::int64_t>(free_and_total().first);
}

std::int64_t Context::total_bytes() const {
  return static_cast<std::int64_t>(free_and_total().second);
}

}  // namespace hydrac::runtime::cuda
