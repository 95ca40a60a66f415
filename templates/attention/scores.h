// How a query's dot product with a key becomes a score before the softmax. `shape` has the scale, and what
// else a rule reads.
#pragma once
#include "hydrac/math.h"

namespace hydrac {

// scale * q . k
struct LinearScores {
  static constexpr bool is_linear = true;

  template <class Shape>
  HYDRAC_FN static constexpr float factor(const Shape& shape) {
    return shape.scale;
  }
  template <class Shape>
  HYDRAC_FN static constexpr float value(const Shape&, float dot) {
    return dot;
  }
  // The derivative of a score over the scale, from its value: d_q = scale * sum of derivative * d_score * k.
  HYDRAC_FN static constexpr float derivative(float) { return 1.0f; }
};

// softcap * tanh(scale * q . k / softcap): no score is larger than softcap (Gemma 2).
struct CappedScores {
  static constexpr bool is_linear = false;

  template <class Shape>
  HYDRAC_FN static constexpr float factor(const Shape& shape) {
    return shape.softcap;
  }
  template <class Shape>
  HYDRAC_FN static float value(const Shape& shape, float dot) {
    return tanh(dot * (shape.scale / shape.softcap));
  }
  HYDRAC_FN static float derivative(float value) { return fma(-value, value, 1.0f); }
};

}  // namespace hydrac
