// C++ that can be lifted, one construct a function. The tests compile this file and lift it too.
#pragma once
#include <algorithm>
#include <cmath>

namespace constructs {

constexpr float kScale = 1.5f;
constexpr float kTable[] = {0.25f, 0.75f};
const int kCount = 3;

constexpr float cube_of_constant(float c) {
  return c * c * c;
}

inline float arithmetic(float x) {
  return -x * 3.0f + (x - 2.0f) / (x * x + 1.0f) - +x;
}

inline float whole_numbers_widen(float x) {
  return 2 * x + 1 / 2 + kCount + static_cast<float>(7) / 2;
}

inline float constants(float x) {
  return x * kScale + kTable[1] + cube_of_constant(1.25f) + static_cast<float>(M_PI);
}

inline float ternaries(float x) {
  return x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
}

inline float comparisons(float x) {
  float y = 0.0f;
  if (x < 1.0f) y += 1.0f;
  if (x <= 2.0f) y += 2.0f;
  if (x > -1.0f) y += 4.0f;
  if (x >= -2.0f) y += 8.0f;
  if (x == 0.5f) y += 16.0f;
  if (x != 0.5f) y += 32.0f;
  return y * x;
}

inline float logic(float x) {
  const bool near = x > -1.0f && x < 1.0f, far = !(x > -4.0f) || x > 4.0f;
  return (near || far ? x : x * x) + (near ? 1 : 0) + float(far);
}

inline bool is_between(float x, float low, float high) {
  if (x < low) return false;
  return x <= high ? true : x != x;
}
inline float conditions_from_conditions(float x) {
  bool inside = is_between(x, -1.0f, 1.0f);
  if (x > 5.0f) inside = true;
  const bool either = inside ? x > 0.0f : x < -3.0f;
  return either ? x * x : -x;
}

inline float const_locals(float x) {
  const float square = x * x, fourth = square * square;
  const auto sum = square + fourth;
  return sum * 0.5f;
}

inline float mutable_locals(float x) {
  float y = x;
  float z{1.0f};
  y *= 2.0f;
  y -= 0.5f;
  z += y;
  z /= 4.0f;
  ++z;
  y--;
  y += std::max(x, 0.5f);
  x = y + z;
  return x;
}

inline float assigned_in_branches(float x) {
  float y;
  float z = x;
  if (x < 0.0f) {
    y = -x;
    z = z * 2.0f;
  } else {
    y = x * 3.0f;
  }
  return y + z;
}

inline float early_returns(float x) {
  if (x < -2.0f) return x * 0.1f;
  float y = x * x;
  if (x < 0.0f) {
    y += 1.0f;
    if (x < -1.0f) return y;
    y *= 2.0f;
  } else if (x > 3.0f) {
    return 9.0f;
  }
  return y + x;
}

inline float nested_blocks(float x) {
  {
    const float twice = 2.0f * x;
    {
      if (twice > 1.0f) {
        return twice;
      }
    }
    x = twice + 1.0f;
  };
  return x;
}

inline float square(float x) {
  return x * x;
}
inline float shadowed(float x, float y) {
  x += y;
  return square(x) - x;
}
template <typename T>
T lerp(const T& a, const T& b, T t) {
  return a + (b - a) * t;
}
inline bool is_large(float x) {
  return x > 2.0f || x < -2.0f;
}

inline float calls(float x) {
  float y = shadowed(x, 2.0f);
  y = lerp(y, x, 0.25f);
  return is_large(x) ? square(square(y)) : y;
}

inline float math_of_c(float x) {
  return expf(-x * x) + expm1f(x * 0.1f) + logf(x * x + 1.0f) + log1pf(x * x) + tanhf(x) + erff(x) +
         sqrtf(x * x + 2.0f) + sinf(x) + cosf(x) + fabsf(x) + fmaxf(x, 0.5f) + fminf(x, -0.5f) +
         powf(x, 3.0f);
}

inline float math_of_std(float x) {
  using std::exp;
  return exp(-x * x) + std::expm1(x * 0.1f) + std::log(x * x + 1.0f) + std::log1p(x * x) + std::tanh(x) +
         std::erf(x) + std::sqrt(x * x + 2.0f) + std::sin(x) + std::cos(x) + std::abs(x) + std::fabs(x) +
         std::max(x, 0.5f) + std::min(x, -0.5f) + std::fmax(x, 2.0f) + std::clamp(x, -1.0f, 1.0f);
}

inline float math_by_others(float x) {
  return std::exp2(x) + std::log2(x * x + 1.0f) + std::log10(x * x + 3.0f) + std::tan(x * 0.2f) +
         std::pow(x * x + 1.0f, 0.3f) + std::pow(2.5f, x) + std::pow(x * x, 1.5f);
}

inline float logistic(float x) {
  return 1.0f / (1.0f + std::exp(-x)) + std::exp(x) / (std::exp(x) + 1.0f) + x / (1.0f + expf(-1.702f * x));
}

constexpr bool kUseGelu = true;
inline float compile_time(float x) {
  if constexpr (kUseGelu) {
    return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  } else {
    return x;
  }
}

static __device__ __forceinline__ float shared_with_cuda(float x) {
  static_assert(sizeof(float) == 4);
  return x * 2.0f;
}

}  // namespace constructs
