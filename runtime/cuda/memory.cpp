#include "runtime/cuda/memory.h"

#include <fmt/format.h>

#include "runtime/cuda/library.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {
namespace {

abi::CUdeviceptr address(const void* device) {
  return reinterpret_cast<abi::CUdeviceptr>(device);
}

void check_bytes(abi::CUresult result, const char* call, std::int64_t bytes) {
  if (result != abi::kCudaSuccess) check(result, fmt::format("{} of {} bytes", call, bytes));
}

}  // namespace

std::byte* DeviceMemory::allocate(std::int64_t bytes) {
  abi::CUdeviceptr found = 0;
  const abi::CUresult result = driver().cuMemAlloc_v2(&found, static_cast<std::size_t>(bytes));
  if (result == abi::kCudaOutOfMemory) {
    std::size_t free = 0, total = 0;
    check(driver().cuMemGetInfo_v2(&free, &total), "cuMemGetInfo");
    throw RunError(fmt::format("the GPU has not {} bytes of memory: {} of {} are free", bytes, free, total));
  }
  check_bytes(result, "cuMemAlloc", bytes);
  return reinterpret_cast<std::byte*>(found);
}

void DeviceMemory::release(std::byte* data) {
  driver().cuMemFree_v2(address(data));
}

std::byte* PinnedMemory::allocate(std::int64_t bytes) {
  void* found = nullptr;
  check_bytes(driver().cuMemHostAlloc(&found, static_cast<std::size_t>(bytes), 0), "cuMemHostAlloc", bytes);
  return static_cast<std::byte*>(found);
}

void PinnedMemory::release(std::byte* data) {
  driver().cuMemFreeHost(data);
}

void copy_to_device(void* device, const void* host, std::int64_t bytes) {
  check_bytes(driver().cuMemcpyHtoD_v2(address(device), host, bytes), "cuMemcpyHtoD", bytes);
  // From pageable memory the copy returns when `host` is read, not when the data has arrived; non-blocking
  // streams would not wait for it.
  check(driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

void copy_to_host(void* host, const void* device, std::int64_t bytes) {
  check_bytes(driver().cuMemcpyDtoH_v2(host, address(device), bytes), "cuMemcpyDtoH", bytes);
}

void copy_on_device(void* to, const void* from, std::int64_t bytes, const Stream& stream) {
  check_bytes(driver().cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream.handle()),
              "cuMemcpyDtoDAsync", bytes);
}

void copy_anywhere(void* to, const void* from, std::int64_t bytes, const Stream& stream) {
  check_bytes(driver().cuMemcpyAsync(address(to), address(from), bytes, stream.handle()), "cuMemcpyAsync",
              bytes);
}

void copy_to_device(void* device, const void* host, std::int64_t bytes, const Stream& stream) {
  check_bytes(driver().cuMemcpyHtoDAsync_v2(address(device), host, bytes, stream.handle()),
              "cuMemcpyHtoDAsync", bytes);
}

void copy_to_host(void* host, const void* device, std::int64_t bytes, const Stream& stream) {
  check_bytes(driver().cuMemcpyDtoHAsync_v2(host, address(device), bytes, stream.handle()),
              "cuMemcpyDtoHAsync", bytes);
}

void fill_bytes(void* device, std::uint8_t value, std::int64_t bytes, const Stream& stream) {
  check_bytes(driver().cuMemsetD8Async(address(device), value, bytes, stream.handle()), "cuMemsetD8Async",
              bytes);
}

void fill_words(void* device, std::uint32_t value, std::int64_t bytes, const Stream& stream) {
  check_bytes(driver().cuMemsetD32Async(address(device), value, bytes / 4, stream.handle()),
              "cuMemsetD32Async", bytes);
}

}  // namespace hydrac::runtime::cuda
