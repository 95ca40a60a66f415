// Memory of emulated kernels whose accesses are aligned.
#pragma once
#include <cstddef>
#include <cstring>
#include <vector>

namespace hydrac::emulation {

template <class T>
struct alignas(16) Aligned {
  T at[16 / sizeof(T)];
};

// 16-byte aligned, of NaNs.
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t size) : size_(size), blocks_(size * sizeof(T) / 16 + 1) {
    std::memset(blocks_.data(), 0xFF, blocks_.size() * 16);
  }
  T* data() { return reinterpret_cast<T*>(blocks_.data()); }
  T& operator[](size_t i) { return data()[i]; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  std::vector<Aligned<T>> blocks_;
};

}  // namespace hydrac::emulation
