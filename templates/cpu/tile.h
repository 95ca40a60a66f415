// The register-blocked matmuls that attention is made of: a few rows times a few vectors, kept in registers
// over the whole depth. Vectors are GCC/Clang vector types, as wide as this processor's.
#pragma once
#include <cstdint>
#include <utility>

#include "hydrac/math.h"

namespace hydrac::simd {

#if defined(__AVX512F__)
constexpr int kLanes = 16;         // floats in a vector
constexpr int kVectorsAtOnce = 4;  // with kRowsAtOnce rows: 24 of 32 registers hold sums
constexpr int kRowsAtOnce = 6;
#elif defined(__AVX__)
constexpr int kLanes = 8;
constexpr int kVectorsAtOnce = 2;
constexpr int kRowsAtOnce = 4;
#else
constexpr int kLanes = 4;
constexpr int kVectorsAtOnce = 2;
constexpr int kRowsAtOnce = 4;
#endif

// The widest vector whose size divides a row of `width` floats, so that no row needs a tail.
constexpr int lanes_for(int width) {
  int lanes = kLanes;
  while (width % lanes != 0) lanes /= 2;
  return lanes;
}

template <int lanes>
struct VectorType {
  typedef float Value __attribute__((vector_size(lanes * sizeof(float))));
  // The same in memory: aligned like a float only.
  typedef float Unaligned
      __attribute__((vector_size(lanes * sizeof(float)), aligned(alignof(float)), may_alias));
};
template <int lanes>
using Vector = typename VectorType<lanes>::Value;

template <int lanes>
inline Vector<lanes> load(const float* from) {
  return *reinterpret_cast<const typename VectorType<lanes>::Unaligned*>(from);
}

template <int lanes>
inline void store(float* to, Vector<lanes> value) {
  *reinterpret_cast<typename VectorType<lanes>::Unaligned*>(to) = value;
}

// body(0), body(1), ... body(count - 1), each with its index as a constant: what is indexed so stays in
// registers.
template <int count, class Body>
[[gnu::always_inline]] inline void unrolled(Body body) {
  [&]<int... index>(std::integer_sequence<int, index...>) __attribute__((always_inline)) {
    (body(index), ...);
  }
  (std::make_integer_sequence<int, count>{});
}

// a * b + c for each lane, rounded once whatever -ffp-contract says. By name, because compilers do not always
// find the instruction behind the lanes: GCC 12 multiplies 16 of them one by one.
template <int lanes>
[[gnu::always_inline]] inline Vector<lanes> multiply_add(float a, Vector<lanes> b, Vector<lanes> c) {
  [[maybe_unused]] const Vector<lanes> all_a = a - Vector<lanes>{};
#if defined(__AVX512F__)
  constexpr int kCurrentRounding = 4;
  if constexpr (lanes == 16)
    return __builtin_ia32_vfmaddps512_mask(all_a, b, c, static_cast<unsigned short>(-1), kCurrentRounding);
#endif
#if defined(__FMA__)
  if constexpr (lanes == 8) return __builtin_ia32_vfmaddps256(all_a, b, c);
  if constexpr (lanes == 4) return __builtin_ia32_vfmaddps(all_a, b, c);
#endif
  return [&]<int... lane>(std::integer_sequence<int, lane...>) __attribute__((always_inline)) {
    return Vector<lanes>{fma(a, b[lane], c[lane])...};
  }
  (std::make_integer_sequence<int, lanes>{});
}

// The sum of the lanes, by halves: a fixed order.
template <int lanes>
inline float sum_lanes(Vector<lanes> value) {
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) value[lane] += value[lane + half];
  }
  return value[0];
}

// A matmul's use of the old content of C: none, add to it, or scale its rows and then add.
enum class Start { zero, add, scale };

// A[row, step] lies at a[row * a_row + step * a_step]: either order of A is read in place.
struct Left {
  const float* data;
  std::int64_t row_stride, step_stride;
};

// C[rows, vectors * lanes] = start(C) + A[rows, depth] * B[depth, vectors * lanes]; rows of B and C are
// contiguous. Not inlined: a call costs nothing beside the loop, and each copy would be compiled anew.
template <int lanes, int rows, int vectors>
[[gnu::noinline]] void matmul_block(Start start, std::int64_t depth, Left a, const float* b,
                                    std::int64_t b_stride, float* c, std::int64_t c_stride,
                                    const float* row_scale) {
  Vector<lanes> sum[rows * vectors];
  unrolled<rows * vectors>([&](int i) __attribute__((always_inline)) { sum[i] = Vector<lanes>{}; });
  if (start != Start::zero) {
    unrolled<rows * vectors>([&](int i) __attribute__((always_inline)) {
      sum[i] = load<lanes>(c + i / vectors * c_stride + i % vectors * lanes);
    });
  }
  if (start == Start::scale) {
    unrolled<rows * vectors>([&](int i) __attribute__((always_inline)) { sum[i] *= row_scale[i / vectors]; });
  }
  for (std::int64_t step = 0; step < depth; ++step) {
    const float* left = a.data + step * a.step_stride;
    const float* right_row = b + step * b_stride;
    Vector<lanes> right[vectors];
    unrolled<vectors>([&](int v)
                          __attribute__((always_inline)) { right[v] = load<lanes>(right_row + v * lanes); });
    unrolled<rows * vectors>([&](int i) __attribute__((always_inline)) {
      sum[i] = multiply_add<lanes>(left[i / vectors * a.row_stride], right[i % vectors], sum[i]);
    });
  }
  unrolled<rows * vectors>([&](int i) __attribute__((always_inline)) {
    store<lanes>(c + i / vectors * c_stride + i % vectors * lanes, sum[i]);
  });
}

// The same for any number of vectors.
template <int lanes, int rows>
inline void matmul_rows(Start start, int vectors, std::int64_t depth, Left a, const float* b,
                        std::int64_t b_stride, float* c, std::int64_t c_stride,
                        const float* row_scale = nullptr) {
  int v = 0;
  const auto next = [&]<int count>(std::integral_constant<int, count>) {
    matmul_block<lanes, rows, count>(start, depth, a, b + v * lanes, b_stride, c + v * lanes, c_stride,
                                     row_scale);
    v += count;
  };
  while (v + kVectorsAtOnce <= vectors) next(std::integral_constant<int, kVectorsAtOnce>{});
  const int left_over = vectors - v;
  if (left_over == 1) next(std::integral_constant<int, 1>{});
  if constexpr (kVectorsAtOnce > 2) {
    if (left_over == 2) next(std::integral_constant<int, 2>{});
    if (left_over == 3) next(std::integral_constant<int, 3>{});
  }
}

// body(count, first) for the rows in groups of kRowsAtOnce, then of 4, 2 and 1; `count` is a constant.
template <class Body>
inline void for_row_groups(int rows, Body body) {
  int first = 0;
  const auto groups_of = [&]<int count>(std::integral_constant<int, count> size) {
    for (; first + count <= rows; first += count) body(size, first);
  };
  groups_of(std::integral_constant<int, kRowsAtOnce>{});
  if constexpr (kRowsAtOnce > 4) groups_of(std::integral_constant<int, 4>{});
  groups_of(std::integral_constant<int, 2>{});
  groups_of(std::integral_constant<int, 1>{});
}

// One step of a transposition: the upper right blocks of size `size` change places with the lower left ones.
template <int size, int lanes>
[[gnu::always_inline]] inline void swap_blocks(Vector<lanes>& upper, Vector<lanes>& lower) {
  [&]<int... lane>(std::integer_sequence<int, lane...>) __attribute__((always_inline)) {
    const Vector<lanes> old_upper = upper;
    upper = __builtin_shufflevector(old_upper, lower, ((lane & size) != 0 ? lanes + lane - size : lane)...);
    lower = __builtin_shufflevector(old_upper, lower, ((lane & size) != 0 ? lanes + lane : lane + size)...);
  }
  (std::make_integer_sequence<int, lanes>{});
}

template <int size, int lanes>
[[gnu::always_inline]] inline void transpose_square(Vector<lanes> (&square)[lanes]) {
  unrolled<lanes / 2>([&](int pair) __attribute__((always_inline)) {
    const int row = pair / size * 2 * size + pair % size;
    swap_blocks<size, lanes>(square[row], square[row + size]);
  });
  if constexpr (2 * size < lanes) transpose_square<2 * size, lanes>(square);
}

// to[column * to_stride + row] = factor * from[row * from_stride + column] for row < rows; rows up to the
// next multiple of kLanes become zeros.
template <int columns>
inline void transpose(int rows, const float* from, std::int64_t from_stride, float factor, float* to,
                      std::int64_t to_stride) {
  constexpr int lanes = lanes_for(columns);
  const int padded = (rows + kLanes - 1) / kLanes * kLanes;
  for (int row = 0; row < padded; row += lanes) {
    for (int column = 0; column < columns; column += lanes) {
      Vector<lanes> square[lanes];
      unrolled<lanes>([&](int i) __attribute__((always_inline)) {
        square[i] = Vector<lanes>{};
        if (row + i < rows) square[i] = load<lanes>(from + (row + i) * from_stride + column) * factor;
      });
      transpose_square<1, lanes>(square);
      unrolled<lanes>([&](int i) __attribute__((always_inline)) {
        store<lanes>(to + (column + i) * to_stride + row, square[i]);
      });
    }
  }
}

}  // namespace hydrac::simd
