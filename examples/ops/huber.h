// Huber's loss: squared near the target, straight further out.
#pragma once
#include <cmath>

inline float huber(float prediction, float target) {
  constexpr float delta = 1.0f;
  const float error = std::abs(prediction - target);
  if (error <= delta) return 0.5f * error * error;
  return delta * (error - 0.5f * delta);
}
