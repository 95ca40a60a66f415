// CUDA C++ for a plain C++20 compiler: stands before the text of a kernel (EmulatedKernels puts it there).
// Every CUDA thread is then a fiber of one host thread. Shared memory is thread_local, so that all of it lies
// in the library's TLS segment, which is poisoned when a block starts. Dynamic shared memory has one name,
//     extern __shared__ unsigned char shared[];
// (with __align__ up to 1024), in functions of the global namespace, of hydrac and of hydrac::cuda; in the
// last also shared_memory.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "emulation_state.h"

#define HYDRAC_CUDA_EMULATION 1

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __constant__
#define __shared__ thread_local
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

__attribute__((aligned(1024))) thread_local unsigned char
    shared[hydrac::emulation::kMostSharedBytes + hydrac::emulation::kGuardBytes];

// `extern __shared__` inside a function names a variable of the namespace around that function.
namespace hydrac {
extern thread_local unsigned char shared[] __attribute__((alias("shared")));
namespace cuda {
extern thread_local unsigned char shared[] __attribute__((alias("shared")));
extern thread_local unsigned char shared_memory[] __attribute__((alias("shared")));
}  // namespace cuda
}  // namespace hydrac

namespace hydrac::emulation {

inline State state;

template <auto kernel>
struct Describe;
template <typename... P, void (*kernel)(P...)>
struct Describe<kernel> {
  static constexpr std::size_t sizes[sizeof...(P) + 1] = {sizeof(P)...};
  template <std::size_t... i>
  static void call_with([[maybe_unused]] void* const* arguments, std::index_sequence<i...>) {
    kernel(*static_cast<std::remove_cv_t<P>*>(arguments[i])...);
  }
  static void call(void* const* arguments) { call_with(arguments, std::index_sequence_for<P...>{}); }
};

template <typename T>
std::uint64_t to_word(T x) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles values of 4 or 8 bytes");
  std::uint64_t word = 0;
  std::memcpy(&word, &x, sizeof x);
  return word;
}
template <typename T>
T from_word(std::uint64_t word) {
  T x;
  std::memcpy(&x, &word, sizeof x);
  return x;
}

inline int lane() {
  const uint3 &at = state.thread, &size = state.block_size;
  return static_cast<int>((at.x + size.x * (at.y + size.y * at.z)) % kWarp);
}

// The value of the lane `source`, or this lane's own where there is no such lane in its segment.
template <typename T>
T shuffle(unsigned mask, T x, int source, bool inside, int width, Site site) {
  if (width < 1 || width > kWarp || (width & (width - 1)) != 0)
    state.fail("asks for a width that is no power of two up to 32", site);
  const std::uint64_t* words = state.exchange(mask, to_word(x), site);
  if (!inside) return x;
  if (!(mask >> source & 1u)) state.fail("reads a lane that its mask does not name", site);
  return from_word<T>(words[source]);
}

// What the lanes of the mask passed, combined in lane order.
template <typename T, typename Combine>
T reduce(unsigned mask, T x, Site site, Combine combine) {
  const std::uint64_t* words = state.exchange(mask, to_word(x), site);
  bool first = true;
  T result = x;
  for (int i = 0; i < kWarp; ++i) {
    if (!(mask >> i & 1u)) continue;
    const T other = from_word<T>(words[i]);
    result = first ? other : combine(result, other);
    first = false;
  }
  return result;
}

// Which lanes of the mask passed a true predicate.
inline unsigned ballot(unsigned mask, int predicate, Site site) {
  const std::uint64_t* words = state.exchange(mask, to_word(predicate), site);
  unsigned result = 0;
  for (int i = 0; i < kWarp; ++i) {
    if (mask >> i & 1u && words[i] != 0) result |= 1u << i;
  }
  return result;
}

// What `bar.sync name, threads` does; inline assembly in device code stands beside a call of this.
inline void named_barrier(int name, int threads, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  state.named_barrier(name, threads, {"bar.sync", file, line});
}

inline unsigned char* dynamic_shared_of_thread() {
  return ::shared;
}

}  // namespace hydrac::emulation

extern "C" __attribute__((visibility("default"))) const hydrac::emulation::Library hydrac_emulated_library;
const hydrac::emulation::Library hydrac_emulated_library{&hydrac::emulation::state,
                                                         hydrac::emulation::dynamic_shared_of_thread};

// Makes a kernel of this text known to the scheduler.
#define HYDRAC_EMULATED_KERNEL(name)                                                                  \
  extern "C" __attribute__((visibility("default"))) const hydrac::emulation::Kernel name##__emulated; \
  const hydrac::emulation::Kernel name##__emulated{                                                   \
      hydrac::emulation::Describe<name>::call, hydrac::emulation::Describe<name>::sizes,              \
      sizeof(hydrac::emulation::Describe<name>::sizes) / sizeof(std::size_t) - 1};

inline const uint3& threadIdx = hydrac::emulation::state.thread;
inline const uint3& blockIdx = hydrac::emulation::state.block;
inline const uint3& blockDim = hydrac::emulation::state.block_size;
inline const uint3& gridDim = hydrac::emulation::state.grid_size;
constexpr int warpSize = hydrac::emulation::kWarp;

#include "cuda_intrinsics.h"
