// Users' functions for specs of tests, text and all.
#pragma once

// An activation that needs every operation that bodies have for numbers and conditions, but floor.
#define EVERY_OPERATION                                                                                     \
  "{cpp: every.h, function: every, text: \"#include <algorithm>\\n#include <cmath>\\nfloat every(float x) " \
  "{\\n"                                                                                                    \
  "  const float a = 0.5f * x;\\n"                                                                          \
  "  if (!(a < 1.0f) || (a <= -1.0f && a > -9.0f))\\n"                                                      \
  "    return std::tanh(x) + std::erf(a) + std::sqrt(x * x + 1.0f);\\n"                                     \
  "  float y = std::exp(-std::abs(x)) + std::expm1(a) + std::log(x * x + 2.0f) + std::log1p(x * x);\\n"     \
  "  y += std::sin(x) * std::cos(a) - std::pow(x * x + 1.0f, 0.3f);\\n"                                     \
  "  y += std::max(x, a) / (2.0f + std::min(a, 0.25f));\\n"                                                 \
  "  return x == 0.5f ? y : y * (x / (1.0f + std::exp(-x)));\\n}\\n\"}"

// A gated one.
#define OWN_GATED                                                                                       \
  "{cpp: gated.h, function: bilinear, text: \"#include <cmath>\\nfloat bilinear(float gate, float up) " \
  "{ return std::tanh(gate) * up + 0.125f * gate * up * up; }\"}"

// A loss with a corner.
#define OWN_LOSS                                                                                     \
  "{cpp: huber.h, function: huber, text: \"#include <cmath>\\nfloat huber(float y, float target) { " \
  "const float e = std::abs(y - target); return e < 0.75f ? 0.5f * e * e : 0.75f * (e - 0.375f); }\"}"

// A curve in double, with steps.
#define OWN_CURVE                                                                                   \
  "{cpp: stairs.h, function: stairs, text: \"#include <cmath>\\ndouble stairs(double step, double " \
  "max_steps) "                                                                                     \
  "{ return std::pow(0.5, std::floor(8.0 * step / max_steps)); }\"}"

// The same in float.
#define OWN_FLOAT_CURVE                                                                                     \
  "{cpp: stairs.h, function: stairs, text: \"#include <cmath>\\nfloat stairs(float step, float max_steps) " \
  "{ return std::pow(0.5f, std::floor(8.0f * step / max_steps)); }\"}"
