// Device and pinned host memory, copies and fills. Sizes are bytes. Copies without a stream are synchronous,
// but do not wait for work on our streams (which are non-blocking): synchronize those first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/cuda/stream.h"

namespace hydrac::runtime::cuda {

// Alignment of parts of an allocation, so that anything can lie there.
inline constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Source of a Buffer's memory. allocate() throws RunError: for the GPU it names the size and what is free.
struct DeviceMemory {
  static std::byte* allocate(std::int64_t bytes);
  static void release(std::byte* data);
};
struct PinnedMemory {
  static std::byte* allocate(std::int64_t bytes);
  static void release(std::byte* data);
};

// Memory that is owned, with undefined contents at first. Movable.
template <class Memory>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t bytes) : data_(bytes > 0 ? Memory::allocate(bytes) : nullptr), bytes_(bytes) {}
  ~Buffer() {
    if (data_ != nullptr) Memory::release(data_);
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }  // nullptr when empty
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// On the GPU; aligned to 256 bytes.
using DeviceBuffer = Buffer<DeviceMemory>;
// On the host, read and written by the GPU directly: asynchronous copies need it.
using PinnedBuffer = Buffer<PinnedMemory>;

void copy_to_device(void* device, const void* host, std::int64_t bytes);
void copy_to_host(void* host, const void* device, std::int64_t bytes);

// Asynchronous: `host` must be pinned, and stay as it is until the stream is there.
void copy_to_device(void* device, const void* host, std::int64_t bytes, const Stream& stream);
void copy_to_host(void* host, const void* device, std::int64_t bytes, const Stream& stream);
void copy_on_device(void* to, const void* from, std::int64_t bytes, const Stream& stream);
// Between any two parts of an arena (runtime/cuda/arena.h), whichever of them lies on the host.
void copy_anywhere(void* to, const void* from, std::int64_t bytes, const Stream& stream);

// Every byte becomes `value`; or every 32-bit word of `bytes` (a multiple of 4) does.
void fill_bytes(void* device, std::uint8_t value, std::int64_t bytes, const Stream& stream);
void fill_words(void* device, std::uint32_t value, std::int64_t bytes, const Stream& stream);

}  // namespace hydrac::runtime::cuda
