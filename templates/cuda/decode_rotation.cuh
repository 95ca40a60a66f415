// Rope of a new token's query and key, in the registers of attention_decode.cuh, with the same bits as rope's
// own kernel.
#pragma once
#include "cuda/vector.cuh"

namespace hydrac::cuda {

// The rope that a kernel still has to apply to the new tokens' queries and keys: none, or a rotation of a
// head's elements i and i + D/2 (halves), or 2i and 2i + 1 (neighbours).
enum class Rotation { none, halves, neighbours };

// The angles' tables [positions, D/2]; nullptr without a rotation.
struct RotationTables {
  const float *cos, *sin;
};

namespace detail {

// A lane's columns of a head, or zeros where it has none.
template <class Config>
__device__ Vector<typename Config::T, Config::columns> columns_of(const typename Config::T* head,
                                                                  int column) {
  Vector<typename Config::T, Config::columns> columns{};
  if (column < Config::head_dim) load_columns<Config::access>(columns, head + column);
  return columns;
}

// A lane's columns of heads of one new token, rotated by the token's angles and rounded as memory would round
// them.
template <class Config>
class DecodeRotation {
  using T = typename Config::T;
  using Columns = Vector<T, Config::columns>;
  static constexpr bool kHalves = Config::rotation == Rotation::halves;
  static constexpr int kHalf = Config::head_dim / 2;
  static constexpr int kAngles = kHalves ? Config::columns : Config::columns / 2;  // of a lane

 public:
  __device__ DecodeRotation(const RotationTables& tables, int position, int column)
      : column_(column), is_first_(column < kHalf) {
    if (Config::rotation == Rotation::none || column >= Config::head_dim) return;
    const int angle = position * kHalf + (!kHalves ? column / 2 : is_first_ ? column : column - kHalf);
    load_columns<4>(cos_, tables.cos + angle);
    load_columns<4>(sin_, tables.sin + angle);
  }

  __device__ Columns load(const T* head) const {
    const Columns own = columns_of<Config>(head, column_);
    if (Config::rotation == Rotation::none || column_ >= Config::head_dim) return own;
    if constexpr (kHalves) return turned_halves(own, head);
    return turned_neighbours(own);
  }

 private:
  __device__ Columns turned_halves(const Columns& own, const T* head) const {
    Columns other, turned;
    load_columns<Config::access>(other, head + (is_first_ ? column_ + kHalf : column_ - kHalf));
#pragma unroll
    for (int c = 0; c < kAngles; ++c) {
      const float x = element(own, c) * cos_.at[c], y = element(other, c) * sin_.at[c];
      turned.at[c] = narrow<T>(is_first_ ? x - y : x + y);
    }
    return turned;
  }

  __device__ Columns turned_neighbours(const Columns& own) const {
    Columns turned;
#pragma unroll
    for (int c = 0; c < Config::columns / 2; ++c) {
      const float x1 = element(own, 2 * c), x2 = element(own, 2 * c + 1);
      turned.at[2 * c] = narrow<T>(x1 * cos_.at[c] - x2 * sin_.at[c]);
      turned.at[2 * c + 1] = narrow<T>(x2 * cos_.at[c] + x1 * sin_.at[c]);
    }
    return turned;
  }

  const int column_;
  const bool is_first_;  // of the halves
  Vector<float, kAngles> cos_, sin_;
};

}  // namespace detail

}  // namespace hydrac::cuda
