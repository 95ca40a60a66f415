// The intrinsics that kernels may use, for cuda_emulation.h. Names and meanings are those of the CUDA C++
// Programming Guide; `file` and `line` are where the call stands, for messages.
#pragma once

#define HYDRAC_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
} __attribute__((aligned(16)));
struct int2 {
  int x, y;
};
struct int4 {
  int x, y, z, w;
} __attribute__((aligned(16)));
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
} __attribute__((aligned(16)));
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline int2 make_int2(int x, int y) {
  return {x, y};
}
inline int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

// Barriers of the block and of the warp.
inline void __syncthreads(HYDRAC_SITE) {
  hydrac::emulation::state.barrier(0, {"__syncthreads", file, line});
}
inline int __syncthreads_count(int predicate, HYDRAC_SITE) {
  return hydrac::emulation::state.barrier(predicate, {"__syncthreads_count", file, line});
}
inline int __syncthreads_or(int predicate, HYDRAC_SITE) {
  return hydrac::emulation::state.barrier(predicate, {"__syncthreads_or", file, line}) != 0;
}
inline int __syncthreads_and(int predicate, HYDRAC_SITE) {
  return hydrac::emulation::state.barrier(!predicate, {"__syncthreads_and", file, line}) == 0;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, HYDRAC_SITE) {
  hydrac::emulation::state.exchange(mask, 0, {"__syncwarp", file, line});
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// Shuffles. A segment is the `width` lanes among which they move values.
template <typename T>
T __shfl_sync(unsigned mask, T x, int source, int width = 32, HYDRAC_SITE) {
  const int first = hydrac::emulation::lane() & ~(width - 1);
  return hydrac::emulation::shuffle(mask, x, first + (source & (width - 1)), true, width,
                                    {"__shfl_sync", file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T x, unsigned delta, int width = 32, HYDRAC_SITE) {
  const int lane = hydrac::emulation::lane(), source = lane - static_cast<int>(delta);
  return hydrac::emulation::shuffle(mask, x, source, source >= (lane & ~(width - 1)), width,
                                    {"__shfl_up_sync", file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T x, unsigned delta, int width = 32, HYDRAC_SITE) {
  const int lane = hydrac::emulation::lane(), source = lane + static_cast<int>(delta);
  return hydrac::emulation::shuffle(mask, x, source, source <= (lane | (width - 1)), width,
                                    {"__shfl_down_sync", file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T x, int lanes, int width = 32, HYDRAC_SITE) {
  const int lane = hydrac::emulation::lane(), source = lane ^ lanes;
  return hydrac::emulation::shuffle(mask, x, source, source <= (lane | (width - 1)), width,
                                    {"__shfl_xor_sync", file, line});
}

// Votes and reductions of a warp.
inline unsigned __ballot_sync(unsigned mask, int predicate, HYDRAC_SITE) {
  return hydrac::emulation::ballot(mask, predicate, {"__ballot_sync", file, line});
}
inline int __any_sync(unsigned mask, int predicate, HYDRAC_SITE) {
  return hydrac::emulation::ballot(mask, predicate, {"__any_sync", file, line}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, HYDRAC_SITE) {
  return hydrac::emulation::ballot(mask, predicate, {"__all_sync", file, line}) == mask;
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T x, HYDRAC_SITE) {
  const std::uint64_t own = hydrac::emulation::to_word(x);
  const std::uint64_t* words = hydrac::emulation::state.exchange(mask, own, {"__match_any_sync", file, line});
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) {
    if (mask >> i & 1u && words[i] == own) result |= 1u << i;
  }
  return result;
}
template <typename T>
T __reduce_add_sync(unsigned mask, T x, HYDRAC_SITE) {
  return hydrac::emulation::reduce(mask, x, {"__reduce_add_sync", file, line},
                                   [](T a, T b) { return a + b; });
}
template <typename T>
T __reduce_min_sync(unsigned mask, T x, HYDRAC_SITE) {
  return hydrac::emulation::reduce(mask, x, {"__reduce_min_sync", file, line},
                                   [](T a, T b) { return b < a ? b : a; });
}
template <typename T>
T __reduce_max_sync(unsigned mask, T x, HYDRAC_SITE) {
  return hydrac::emulation::reduce(mask, x, {"__reduce_max_sync", file, line},
                                   [](T a, T b) { return a < b ? b : a; });
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned x, HYDRAC_SITE) {
  return hydrac::emulation::reduce(mask, x, {"__reduce_and_sync", file, line},
                                   [](unsigned a, unsigned b) { return a & b; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned x, HYDRAC_SITE) {
  return hydrac::emulation::reduce(mask, x, {"__reduce_or_sync", file, line},
                                   [](unsigned a, unsigned b) { return a | b; });
}
#undef HYDRAC_SITE

[[noreturn]] inline void __trap() {
  hydrac::emulation::state.fail("traps", {"__trap", nullptr, 0});
}

// Atomics: one thread runs at a time.
template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> x) {
  const T old = *at;
  *at = old + x;
  return old;
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> x) {
  const T old = *at;
  if (old < x) *at = x;
  return old;
}
template <typename T>
T atomicMin(T* at, std::type_identity_t<T> x) {
  const T old = *at;
  if (x < old) *at = x;
  return old;
}
template <typename T>
T atomicOr(T* at, std::type_identity_t<T> x) {
  const T old = *at;
  *at = old | x;
  return old;
}
template <typename T>
T atomicExch(T* at, std::type_identity_t<T> x) {
  const T old = *at;
  *at = x;
  return old;
}
template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> x) {
  const T old = *at;
  if (old == expected) *at = x;
  return old;
}

// Loads and stores with cache hints.
template <typename T>
T __ldg(const T* from) {
  return *from;
}
template <typename T>
T __ldca(const T* from) {
  return *from;
}
template <typename T>
T __ldcg(const T* from) {
  return *from;
}
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
template <typename T>
void __stcg(T* to, std::type_identity_t<T> x) {
  *to = x;
}
template <typename T>
void __stcs(T* to, std::type_identity_t<T> x) {
  *to = x;
}
template <typename T>
void __stwt(T* to, std::type_identity_t<T> x) {
  *to = x;
}

// Arithmetic. What the GPU only approximates is rounded correctly here.
inline float __expf(float x) {
  return std::exp(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float __fadd_rn(float x, float y) {
  return x + y;
}
inline float __fsub_rn(float x, float y) {
  return x - y;
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __fdiv_rn(float x, float y) {
  return x / y;
}
inline float __fmaf_rn(float x, float y, float z) {
  return std::fma(x, y, z);
}
inline float __frcp_rn(float x) {
  return 1.0f / x;
}
inline float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
inline float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
inline float rsqrtf(float x) {
  return __frsqrt_rn(x);
}
inline float __saturatef(float x) {
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}
inline int __float2int_rn(float x) {
  return static_cast<int>(std::nearbyint(x));
}
inline float __int_as_float(int x) {
  return __builtin_bit_cast(float, x);
}
inline float __uint_as_float(unsigned x) {
  return __builtin_bit_cast(float, x);
}
inline int __float_as_int(float x) {
  return __builtin_bit_cast(int, x);
}
inline unsigned __float_as_uint(float x) {
  return __builtin_bit_cast(unsigned, x);
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(x) * y) >> 32);
}
inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1u) << (31 - i);
  return result;
}

#define HYDRAC_MIN_MAX(type)           \
  constexpr type min(type a, type b) { \
    return b < a ? b : a;              \
  }                                    \
  constexpr type max(type a, type b) { \
    return a < b ? b : a;              \
  }
HYDRAC_MIN_MAX(int)
HYDRAC_MIN_MAX(unsigned)
HYDRAC_MIN_MAX(long)
HYDRAC_MIN_MAX(unsigned long)
HYDRAC_MIN_MAX(long long)
HYDRAC_MIN_MAX(unsigned long long)
HYDRAC_MIN_MAX(float)
HYDRAC_MIN_MAX(double)
#undef HYDRAC_MIN_MAX
using std::isfinite;
