#include <cmath>

static int calls = 0;

inline float act(float x) {
  ++calls;
  float y = 0.0f;
  for (int i = 1; i < 4; ++i) y += std::pow(x, i);
  if (x > 2.0) return 0.5 * y;
  return std::atan(y);
}
