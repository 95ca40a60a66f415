#include <cmath>

float sech(float x) {
  return 2.0f / (std::exp(x) + std::exp(-x));
}
