// cuda/tensor_copy.cuh for emulated kernels whose clusters are one block. Copies are done when they are
// begun. A tensor map's words are the address of the matrix, its width and height, and those of a box, in
// elements.
#pragma once
#include "cuda/barrier.cuh"
#include "cuda/tensor_map.h"

namespace hydrac {

inline void cluster_sync() {
  __syncthreads();
}
inline void cluster_arrive() {}
inline void cluster_wait() {
  __syncthreads();
}
inline std::uint32_t cluster_rank() {
  return 0;
}
inline std::uint32_t address_in(std::uint32_t address, std::uint32_t) {
  return address;
}
inline void store_to_cluster(std::uint32_t to, const float (&x)[4]) {
  std::memcpy(ptx::shared_at(to), x, sizeof x);
}
inline void prefetch_map(const TensorMap&) {}

// Rows of 128 bytes, whose 16-byte chunks are swizzled by the row's place in its 1024 bytes.
inline void copy_box(std::uint32_t to, const TensorMap& map, int x, int y, std::uint32_t barrier) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(map.words[0]);
  const auto width = static_cast<int>(map.words[1]), height = static_cast<int>(map.words[2]),
             columns = static_cast<int>(map.words[3]), rows = static_cast<int>(map.words[4]);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      const bool inside = x + c < width && y + r < height;
      const std::uint16_t half = inside ? from[static_cast<std::int64_t>(y + r) * width + x + c] : 0;
      const std::uint32_t at = to + r * 128 + c * 2;
      std::memcpy(ptx::shared_at(at ^ (at >> 7 & 7) << 4), &half, sizeof half);
    }
  }
  barrier::complete(barrier, rows * columns * 2);
}
inline void copy_box_once(std::uint32_t to, const TensorMap& map, int x, int y, std::uint32_t barrier) {
  copy_box(to, map, x, y, barrier);
}
inline void copy_box_to(std::uint16_t, std::uint32_t to, const TensorMap& map, int x, int y,
                        std::uint32_t barrier) {
  copy_box(to, map, x, y, barrier);
}

}  // namespace hydrac
