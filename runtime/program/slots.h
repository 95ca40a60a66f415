// Tensors of an arena as typed pointers, for emitted programs: one tensor, or one a layer.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hydrac::runtime {

// A tensor for each layer (or for each part of something else), `stride` elements from one to the next. Only
// `count` of them lie apart: tensor s is where tensor s - count was, which nobody needs any more.
template <class T>
struct Slots {
  T* first = nullptr;
  std::int64_t stride = 0;
  int count = 1;

  T* operator[](std::int64_t slot) const { return first + slot % count * stride; }
};

// Addresses from byte offsets. An arena at nullptr makes pointers that count from the arena's start.
struct Arena {
  std::byte* start = nullptr;

  template <class T>
  T* tensor(std::int64_t offset) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(start) +
                                static_cast<std::uintptr_t>(offset));
  }
  template <class T>
  Slots<T> slots(std::int64_t offset, std::int64_t stride, int count) const {
    return {tensor<T>(offset), stride, count};
  }
};

}  // namespace hydrac::runtime
