// Columns of a row in registers: a thread holds N consecutive ones and moves them in accesses of A elements,
// as many as the row's alignment allows, of at most 16 bytes.
#pragma once
#include "cuda/types.cuh"

namespace hydrac {

// The value of an element in registers: float for every floating-point type, integers as they are.
template <typename T>
HYDRAC_FN auto widen(T x) {
  if constexpr (is_narrow<T>) {
    return to_float(x);
  } else {
    return x;
  }
}

template <typename T, typename X>
HYDRAC_FN T narrow(X x) {
  if constexpr (is_narrow<T>) {
    return from_float<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

template <typename T>
inline constexpr bool is_bf16 = false;
template <>
inline constexpr bool is_bf16<bf16> = true;

// Two 16-bit values in a word, the first in its low half: one instruction where the GPU has it.
template <typename T>
HYDRAC_FN std::uint32_t narrow_pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t word;
  if constexpr (is_bf16<T>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  }
  return word;
#else
  return from_float<T>(first).bits | static_cast<std::uint32_t>(from_float<T>(second).bits) << 16;
#endif
}

// N elements in N / A accesses.
template <int A, int N, typename T>
HYDRAC_FN void load_columns(Vector<T, N>& columns, const T* from) {
  if constexpr (A == N) {
    columns = load<A>(from);
  } else {
#pragma unroll
    for (int i = 0; i < N / A; ++i) {
      const Vector<T, A> part = load<A>(from + i * A);
#pragma unroll
      for (int j = 0; j < A; ++j) columns.at[i * A + j] = part.at[j];
    }
  }
}
template <int N, int A = N, typename T>
HYDRAC_FN Vector<T, N> load_columns(const T* from) {
  Vector<T, N> columns;
  load_columns<A>(columns, from);
  return columns;
}

// A lane's columns of a row: vector k of lane i begins at column (k * lanes + i) * N.
template <typename T, int N, int K>
struct RowVectors {
  Vector<T, N> vectors[K];

  HYDRAC_FN const Vector<T, N>& operator[](int k) const { return vectors[k]; }
};
template <int K, int N, int A = N, typename T, typename Lanes>
HYDRAC_FN RowVectors<T, N, K> load_row(const T* row, const Lanes& lanes) {
  RowVectors<T, N, K> result;
#pragma unroll
  for (int k = 0; k < K; ++k) load_columns<A>(result.vectors[k], row + (k * Lanes::count + lanes.lane) * N);
  return result;
}
// Loads from a row with `width` columns: elements behind its end are not loaded.
template <int K, int N, int A = N, typename T, typename Lanes>
HYDRAC_FN RowVectors<T, N, K> load_row(const T* row, const Lanes& lanes, int width) {
  RowVectors<T, N, K> result;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int column = (k * Lanes::count + lanes.lane) * N;
    if (column < width) load_columns<A>(result.vectors[k], row + column);
  }
  return result;
}

// Element i as a float. For 16-bit types the compiler sees words and extracts each half in one instruction.
template <typename T, int N>
HYDRAC_FN float element(const Vector<T, N>& columns, int i) {
#if defined(__CUDA_ARCH__)
  if constexpr (is_bf16<T> && N > 1) {
    const auto words = __builtin_bit_cast(Vector<std::uint32_t, N / 2>, columns);
    return float_from_bits(i % 2 == 0 ? words.at[i / 2] << 16 : words.at[i / 2] & 0xFFFF0000u);
  }
#endif
  return to_float(columns.at[i]);
}

template <int A, int N, typename T, typename X>
HYDRAC_FN void store_columns(T* to, const X (&columns)[N]) {
#pragma unroll
  for (int i = 0; i < N / A; ++i) {
    Vector<T, A> part;
    if constexpr (is_narrow<T> && sizeof(T) == 1 && A > 1) {
      Vector<std::uint16_t, A / 2> pairs;
#pragma unroll
      for (int j = 0; j < A / 2; ++j)
        pairs.at[j] = f8_pair<T>(columns[i * A + 2 * j], columns[i * A + 2 * j + 1]);
      part = __builtin_bit_cast(Vector<T, A>, pairs);
    } else if constexpr (sizeof(T) == 2 && A > 1) {
      Vector<std::uint32_t, A / 2> words;
#pragma unroll
      for (int j = 0; j < A / 2; ++j)
        words.at[j] = narrow_pair<T>(columns[i * A + 2 * j], columns[i * A + 2 * j + 1]);
      part = __builtin_bit_cast(Vector<T, A>, words);
    } else {
#pragma unroll
      for (int j = 0; j < A; ++j) part.at[j] = narrow<T>(columns[i * A + j]);
    }
    store(to + i * A, part);
  }
}

template <int A, int N, int K, typename T, typename X, typename Lanes>
HYDRAC_FN void store_row(T* row, const X (&columns)[K][N], const Lanes& lanes) {
#pragma unroll
  for (int k = 0; k < K; ++k) store_columns<A>(row + (k * Lanes::count + lanes.lane) * N, columns[k]);
}
template <int A, int N, int K, typename T, typename X, typename Lanes>
HYDRAC_FN void store_row(T* row, const X (&columns)[K][N], const Lanes& lanes, int width) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int column = (k * Lanes::count + lanes.lane) * N;
    if (column < width) store_columns<A>(row + column, columns[k]);
  }
}

// Copies `bytes` (4, 8 or 16) to shared memory, complete behind a wait. Before sm_80, at once.
template <int bytes>
__device__ inline void copy_to_shared(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(bytes)
                 : "memory");
  }
#elif defined(HYDRAC_CUDA_EMULATION)
  emulation::state.copy_later(to, from, bytes);
#else
  using Words = Vector<std::uint32_t, bytes / 4>;
  *static_cast<Words*>(to) = *static_cast<const Words*>(from);
#endif
}

// Waits for this thread's copies; only it may then read them.
__device__ inline void wait_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#elif defined(HYDRAC_CUDA_EMULATION)
  emulation::state.wait_copies();
#endif
}

// Makes this thread's copies since the last call a group, which may be empty.
__device__ inline void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#elif defined(HYDRAC_CUDA_EMULATION)
  emulation::state.commit_copies();
#endif
}

// Waits for this thread's groups of copies but the latest `kLater`, which stay under way.
template <int kLater>
__device__ inline void wait_copies_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
#elif defined(HYDRAC_CUDA_EMULATION)
  emulation::state.wait_copies_before(kLater);
#endif
}

// N elements in N / A copies to shared memory.
template <int A, int N, typename T>
__device__ inline void copy_columns(Vector<T, N>& to, const T* from) {
#pragma unroll
  for (int i = 0; i < N / A; ++i) copy_to_shared<A* static_cast<int>(sizeof(T))>(&to.at[i * A], from + i * A);
}

// A condition as a constant of its own type.
template <bool kCondition>
struct Constant {
  HYDRAC_FN constexpr operator bool() const { return kCondition; }
};

// work(Constant<condition>()): the code of `work` is compiled for each answer.
template <typename Work>
HYDRAC_FN void specialize(bool condition, Work work) {
  if (condition) {
    work(Constant<true>());
  } else {
    work(Constant<false>());
  }
}

// Starts the way of `from` to L2, for a load to come.
__device__ inline void prefetch([[maybe_unused]] const void* from) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#endif
}

// e^x for an x that comes from 16-bit numbers, in two instructions instead of hydrac::exp's seven. The result
// is off by at most |x| * 2^-23 of itself, far less than the error of x.
HYDRAC_FN float exp_of_16_bits(float x) {
#if defined(__CUDA_ARCH__)
  return detail::exp2_approximately(x * 1.442695041f);
#else
  return exp(x);
#endif
}

// 1 / (1 + e^-x) for an x that comes from 16-bit numbers: off by 2^-23 (|x| + 4) of the result at most; 0
// below -87.33.
HYDRAC_FN float sigmoid_of_16_bits(float x) {
#if defined(__CUDA_ARCH__)
  return detail::reciprocal_approximately(1.0f + detail::exp2_approximately(x * -1.442695041f));
#else
  return sigmoid(x);
#endif
}

// C++'s std::max and std::min: the first where the two are equal or one is NaN, unlike fmaxf and fminf.
template <typename T>
HYDRAC_FN T max(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
HYDRAC_FN T min(T a, T b) {
  return b < a ? b : a;
}

}  // namespace hydrac
