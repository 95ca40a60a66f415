// cuda/wgmma.cuh for emulated kernels. Matmuls are computed when they are begun.
#pragma once
#include "cuda/ptx.cuh"

namespace hydrac::wgmma {

// As the hardware's: the address, and the distance of panels of 64 columns, in units of 16 bytes.
inline std::uint64_t descriptor(std::uint32_t address, std::uint32_t panel_bytes, std::uint32_t offset) {
  return (address + offset) / 16 | static_cast<std::uint64_t>(panel_bytes / 16) << 32;
}

// An element of rows of 128 bytes, whose 16-byte chunks are swizzled by the row's place in its 1024 bytes.
template <class Storage>
float element(std::uint64_t descriptor, int row, int column) {
  const auto start = static_cast<std::uint32_t>(descriptor) * 16,
             panel = static_cast<std::uint32_t>(descriptor >> 32) * 16;
  const std::uint32_t at = start + column / 64 * panel + row * 128 + column % 64 * 2;
  return to_float(Storage{ptx::half_at(at ^ (at >> 7 & 7) << 4)});
}

// Adds a [16] . b for each of this lane's sums, where `a(half, k)` is its row of the left side.
template <class Storage, int N, bool b_rows, class Left>
void multiply_by(float (&c)[N / 8][4], Left a, std::uint64_t b, bool add) {
  for (int n = 0; n < N / 8; ++n) {
    for (int e = 0; e < 4; ++e) {
      const int column = n * 8 + emulation::lane() % 4 * 2 + e % 2;
      double sum = 0;
      for (int k = 0; k < 16; ++k) {
        const float right = b_rows ? element<Storage>(b, k, column) : element<Storage>(b, column, k);
        sum += static_cast<double>(a(e / 2, k)) * right;
      }
      c[n][e] = (add ? c[n][e] : 0.0f) + static_cast<float>(sum);
    }
  }
}

template <class Storage, int N, bool a_rows, bool b_rows>
void multiply_shared(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b, bool add) {
  const int first = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + emulation::lane() / 4;
  const auto left = [&](int half, int k) {
    const int row = first + 8 * half;
    return a_rows ? element<Storage>(a, k, row) : element<Storage>(a, row, k);
  };
  multiply_by<Storage, N, b_rows>(c, left, b, add);
}
template <class Storage, int N>
void multiply(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b, bool add) {
  multiply_shared<Storage, N, false, false>(c, a, b, add);
}
template <class Storage, int N>
void multiply_rows(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b, bool add) {
  multiply_shared<Storage, N, false, true>(c, a, b, add);
}
template <class Storage, int N>
void multiply(float (&c)[N / 8][4], const std::uint32_t (&a)[4], std::uint64_t b, bool add) {
  const ptx::LeftRows<Storage> rows(a);
  multiply_by<Storage, N, true>(
      c, [&](int half, int k) { return rows.at[half][k]; }, b, add);
}

// Of rows of 64 or 128 bytes, swizzled over as many.
template <int row_bytes>
std::uint64_t row_descriptor(std::uint32_t address) {
  return address / 16 | static_cast<std::uint64_t>(row_bytes) << 32;
}
inline float f8_element(std::uint64_t descriptor, int row, int column) {
  const auto start = static_cast<std::uint32_t>(descriptor) * 16,
             row_bytes = static_cast<std::uint32_t>(descriptor >> 32);
  const std::uint32_t at = start + row * row_bytes + column;
  return to_float(f8e4m3{*ptx::shared_at(at ^ (at >> 7 & (row_bytes / 16 - 1)) << 4)});
}
template <int N, class Left>
void multiply_f8_by(float (&c)[N / 8][4], Left a, std::uint64_t b, bool add) {
  for (int n = 0; n < N / 8; ++n) {
    for (int e = 0; e < 4; ++e) {
      const int column = n * 8 + emulation::lane() % 4 * 2 + e % 2;
      double sum = 0;
      for (int k = 0; k < 32; ++k) sum += static_cast<double>(a(e / 2, k)) * f8_element(b, column, k);
      c[n][e] = (add ? c[n][e] : 0.0f) + static_cast<float>(sum);
    }
  }
}
template <int N>
void multiply_f8(float (&c)[N / 8][4], std::uint64_t a, std::uint64_t b, bool add) {
  const int first = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + emulation::lane() / 4;
  multiply_f8_by<N>(
      c, [&](int half, int k) { return f8_element(a, first + 8 * half, k); }, b, add);
}
template <int N>
void multiply_f8(float (&c)[N / 8][4], const std::uint32_t (&a)[4], std::uint64_t b, bool add) {
  float rows[2][32];
  for (int half = 0; half < 2; ++half) {
    const std::uint64_t* words =
        ptx::exchange(a[half] | static_cast<std::uint64_t>(a[half + 2]) << 32, "wgmma");
    for (int k = 0; k < 32; ++k) {
      const std::uint64_t word = words[emulation::lane() / 4 * 4 + k % 16 / 4];
      rows[half][k] = to_float(f8e4m3{static_cast<std::uint8_t>(word >> (k / 16 * 32 + k % 4 * 8))});
    }
  }
  multiply_f8_by<N>(
      c, [&](int half, int k) { return rows[half][k]; }, b, add);
}

inline void fence() {}
inline void commit() {}

// The warps of a warpgroup multiply together: who waits for its matmuls has waited for all of theirs.
inline int waiting[8], rounds[8];
template <int pending>
void wait() {
  const int warpgroup = static_cast<int>(threadIdx.x) / 128, round = rounds[warpgroup];
  if (++waiting[warpgroup] == 128) waiting[warpgroup] = 0, ++rounds[warpgroup];
  while (rounds[warpgroup] == round) emulation::state.yield({"wgmma.wait_group", nullptr, 0});
}

template <int fragments>
void fence_operands(float (&)[fragments][4]) {}

}  // namespace hydrac::wgmma
