// Tensors of an arena as typed pointers, for emitted programs: one tensor, or one a layer.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hydrac::runtime {

// A tensor for each layer (or for each part of something else), `stride` elements apart. There are only
// `count` places: tensor s overwrites tensor s - count, which is dead by then.
template <class T>
struct Slots {
  T* first = nullptr;
  std::int64_t stride = 0;
  int count = 1;

  T* operator[](std::int64_t slot) const { return first + slot % count * stride; }
};

// Tensors of one type that lie together, by their offsets in elements.
template <class T>
struct Pack {
  std::byte* start = nullptr;

  T* tensor(std::int64_t offset) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(start) +
                                static_cast<std::uintptr_t>(offset) * sizeof(T));
  }
  Slots<T> slots(std::int64_t stride, int count, std::int64_t offset) const {
    return {tensor(offset), stride, count};
  }
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
  Slots<T> slots(std::int64_t stride, int count, std::int64_t offset) const {
    return {tensor<T>(offset), stride, count};
  }
  template <class T>
  Pack<T> pack(std::int64_t offset) const {
    return {tensor<std::byte>(offset)};
  }
};

}  // namespace hydrac::runtime
