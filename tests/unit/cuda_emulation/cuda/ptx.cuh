// cuda/ptx.cuh for emulated kernels: what the instructions do, said in C++. Addresses of shared memory count
// from its start. Only attention includes it.
#pragma once
#include <cmath>
#include <cstring>

#include "cuda/types.cuh"

namespace hydrac {

template <class Storage>
constexpr bool kIsBf16 = false;
template <>
constexpr bool kIsBf16<bf16> = true;

namespace ptx {

inline unsigned char* shared_at(std::uint32_t address) {
  return ::shared + address;
}
inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(pointer) - ::shared);
}

inline float exp2(float x) {
  return std::exp2(x);
}

template <int bytes>
void copy_to_shared(std::uint32_t to, const void* from, bool valid) {
  static constexpr unsigned char zeros[bytes] = {};
  emulation::state.copy_later(shared_at(to), valid ? from : zeros, bytes);
}
inline void wait_copies() {
  emulation::state.wait_copies();
}
inline void commit_copies() {
  emulation::state.commit_copies();
}
template <int pending>
void wait_copies() {
  emulation::state.wait_copies_before(pending);
}

template <int words>
Vector<std::uint32_t, words> load_shared(std::uint32_t from) {
  Vector<std::uint32_t, words> data;
  std::memcpy(&data, shared_at(from), sizeof data);
  return data;
}
inline void store_shared(std::uint32_t to, std::uint64_t data) {
  std::memcpy(shared_at(to), &data, sizeof data);
}
inline void store_shared(std::uint32_t to, std::uint32_t data) {
  std::memcpy(shared_at(to), &data, sizeof data);
}

inline const std::uint64_t* exchange(std::uint64_t word, const char* name) {
  return emulation::state.exchange(0xFFFFFFFFu, word, {name, nullptr, 0});
}
inline std::uint16_t half_at(std::uint32_t address) {
  std::uint16_t x;
  std::memcpy(&x, shared_at(address), sizeof x);
  return x;
}
inline std::uint32_t pair_of(std::uint16_t low, std::uint16_t high) {
  return low | static_cast<std::uint32_t>(high) << 16;
}

inline void ldmatrix(std::uint32_t (&to)[4], std::uint32_t address) {
  const std::uint64_t* rows = exchange(address, "ldmatrix");
  const int lane = emulation::lane();
  for (int i = 0; i < 4; ++i) {
    const auto from = static_cast<std::uint32_t>(rows[i * 8 + lane / 4]) + lane % 4 * 4;
    to[i] = pair_of(half_at(from), half_at(from + 2));
  }
}
inline void ldmatrix_transposed(std::uint32_t (&to)[4], std::uint32_t address) {
  const std::uint64_t* rows = exchange(address, "ldmatrix.trans");
  const int lane = emulation::lane();
  for (int i = 0; i < 4; ++i) {
    const auto at = [&](int row) {
      return half_at(static_cast<std::uint32_t>(rows[i * 8 + row]) + lane / 4 * 2);
    };
    to[i] = pair_of(at(lane % 4 * 2), at(lane % 4 * 2 + 1));
  }
}
inline std::uint32_t transpose_matrix(std::uint32_t x) {
  const std::uint64_t* words = exchange(x, "movmatrix");
  const int lane = emulation::lane(), column = lane / 4;
  const auto at = [&](int row) {
    return static_cast<std::uint16_t>(words[row * 4 + column / 2] >> column % 2 * 16);
  };
  return pair_of(at(lane % 4 * 2), at(lane % 4 * 2 + 1));
}
inline void stmatrix_transposed(std::uint32_t address, const std::uint32_t (&from)[4]) {
  const int lane = emulation::lane();
  std::uint32_t columns[32];
  const std::uint64_t* addresses = exchange(address, "stmatrix.trans");
  for (int i = 0; i < 32; ++i) columns[i] = static_cast<std::uint32_t>(addresses[i]);
  for (int i = 0; i < 4; ++i) {
    for (int e = 0; e < 2; ++e) {
      const auto x = static_cast<std::uint16_t>(from[i] >> e * 16);
      std::memcpy(shared_at(columns[i * 8 + lane % 4 * 2 + e] + lane / 4 * 2), &x, sizeof x);
    }
  }
  exchange(0, "stmatrix.trans");
}

inline void store_to_memory(void* to, const std::uint32_t (&x)[4]) {
  std::memcpy(to, x, sizeof x);
}
template <class Words>
void store_once(void* to, const Words& x) {
  std::memcpy(to, &x, sizeof x);
}
template <int count>
void add_to_memory(float* to, const float (&x)[count]) {
  for (int i = 0; i < count; ++i) to[i] += x[i];
}
inline void store_release(unsigned* to, unsigned x) {
  *to = x;
}
inline unsigned load_acquire(const unsigned* from) {
  emulation::state.yield({"ld.acquire", nullptr, 0});
  return *from;
}
inline void fence_async_proxy() {}
inline void fence_shared_memory() {}
template <int registers>
void shrink_registers() {}
template <int registers>
void grow_registers() {}

template <class Storage>
float half_value(std::uint32_t pair, int index) {
  return to_float(Storage{static_cast<std::uint16_t>(pair >> index * 16)});
}

// The rows of a [16,16] fragment that this lane's sums need: rows lane / 4 and 8 after it.
template <class Storage>
struct LeftRows {
  float at[2][16];

  explicit LeftRows(const std::uint32_t (&a)[4]) {
    const int quad = emulation::lane() / 4 * 4;
    for (int half = 0; half < 2; ++half) {
      const std::uint64_t* words = exchange(a[half] | static_cast<std::uint64_t>(a[half + 2]) << 32, "mma");
      for (int k = 0; k < 16; ++k) {
        const auto pair = static_cast<std::uint32_t>(words[quad + k % 8 / 2] >> k / 8 * 32);
        at[half][k] = half_value<Storage>(pair, k % 2);
      }
    }
  }
};

template <class Storage>
void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  const LeftRows<Storage> left(a);
  const std::uint64_t* words = exchange(b0 | static_cast<std::uint64_t>(b1) << 32, "mma");
  for (int e = 0; e < 4; ++e) {
    const int column = emulation::lane() % 4 * 2 + e % 2;
    double sum = 0;
    for (int k = 0; k < 16; ++k) {
      const auto pair = static_cast<std::uint32_t>(words[column * 4 + k % 8 / 2] >> k / 8 * 32);
      sum += static_cast<double>(left.at[e / 2][k]) * half_value<Storage>(pair, k % 2);
    }
    c[e] += static_cast<float>(sum);
  }
}

template <class Storage>
std::uint32_t pack(float low, float high) {
  return pair_of(from_float<Storage>(low).bits, from_float<Storage>(high).bits);
}

}  // namespace ptx
}  // namespace hydrac
