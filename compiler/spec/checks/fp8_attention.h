// Obstacles to optimizations.fp8_attention: true.
#pragma once
#include <string>
#include <vector>

#include "spec/spec.h"

namespace hydrac::spec {

struct Fp8AttentionObstacle {
  std::string key;      // whose value it is
  std::string what;     // "fp8_attention takes heads of 64 or 128, and head_dim is 80"
  std::string instead;  // "write fp8_attention: false"
};

// None where hydrac has the kernels.
std::vector<Fp8AttentionObstacle> fp8_attention_obstacles(const SpecKeys& spec);

}  // namespace hydrac::spec
