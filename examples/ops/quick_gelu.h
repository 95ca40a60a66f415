// CLIP's activation, x * sigmoid(1.702 x), and a gated relative of it.
#pragma once
#include <cmath>

inline float quick_gelu(float x) {
  return x / (1.0f + std::exp(-1.702f * x));
}

inline float quick_geglu(float gate, float up) {
  return quick_gelu(gate) * up;
}
