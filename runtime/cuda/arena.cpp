#include "runtime/cuda/arena.h"

#include <fmt/format.h>

#include "runtime/cuda/library.h"
#include "runtime/error.h"
#include "runtime/log/units.h"

namespace hydrac::runtime::cuda {

namespace {

constexpr std::int64_t kPage = 2 << 20;

abi::CUdeviceptr address(const std::byte* data) {
  return reinterpret_cast<abi::CUdeviceptr>(data);
}

int attribute_of(abi::CUdevice device, int which) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

Arena::Arena(std::int64_t device_bytes, std::int64_t host_bytes) {
  if (host_bytes == 0) {
    whole_ = DeviceBuffer(device_bytes);
    data_ = whole_.data();
    return;
  }
  const abi::DriverApi& api = driver();
  check(api.cuCtxGetDevice(&device_), "cuCtxGetDevice");
  if (attribute_of(device_, abi::kDeviceMapsHostMemory) == 0)
    throw InputError(
        "optimizations.offload: the driver of this GPU cannot put the host's memory behind its own (it takes "
        "CUDA 12.2's or a newer one, on Linux); remove the key");
  abi::CUdeviceptr found = 0;
  const auto bytes = static_cast<std::size_t>(device_bytes + host_bytes);
  check(api.cuMemAddressReserve(&found, bytes, kPage, 0, 0), "cuMemAddressReserve");
  data_ = reinterpret_cast<std::byte*>(found);
  reserved_ = device_bytes + host_bytes;
  const int node = attribute_of(device_, abi::kDeviceHostNode);
  abi::CUmemAllocationProp on_device{}, on_host{};
  on_device.type = on_host.type = abi::kMemPinned;
  on_device.location = {abi::kMemOnDevice, device_};
  on_host.location = {abi::kMemOnHostNode, node < 0 ? 0 : node};
  try {
    map(0, device_bytes, on_device, "the GPU");
    map(device_bytes, host_bytes, on_host, "the host");
  } catch (...) {
    release();
    throw;
  }
}

void Arena::map(std::int64_t at, std::int64_t bytes, const abi::CUmemAllocationProp& kind,
                const char* whose) {
  const abi::DriverApi& api = driver();
  abi::CUmemGenericAllocationHandle memory = 0;
  const auto size = static_cast<std::size_t>(bytes);
  const abi::CUresult created = api.cuMemCreate(&memory, size, &kind, 0);
  if (created == abi::kCudaOutOfMemory)
    throw RunError(fmt::format("{} has not {} of memory free", whose, human_bytes(size)));
  check(created, "cuMemCreate");
  // The mapping keeps the memory.
  const abi::CUresult mapped = api.cuMemMap(address(data_ + at), size, 0, memory, 0);
  api.cuMemRelease(memory);
  check(mapped, "cuMemMap");
  mapped_ = at + bytes;
  const abi::CUmemAccessDesc access{{abi::kMemOnDevice, device_}, abi::kMemReadWrite};
  check(api.cuMemSetAccess(address(data_ + at), size, &access, 1), "cuMemSetAccess");
}

void Arena::release() noexcept {
  if (mapped_ > 0) driver().cuMemUnmap(address(data_), static_cast<std::size_t>(mapped_));
  if (reserved_ > 0) driver().cuMemAddressFree(address(data_), static_cast<std::size_t>(reserved_));
  mapped_ = reserved_ = 0;
}

Arena::~Arena() {
  release();
}

}  // namespace hydrac::runtime::cuda
