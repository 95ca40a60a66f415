// The size of the chips that launches are planned for. Plain C++; no CUDA.
#pragma once
#include "hydrac/math.h"

namespace hydrac::cuda {

// Multiprocessors of the largest chip of a capability that plans ask for: Hopper. A smaller one computes the
// same, in more turns.
HYDRAC_FN constexpr int multiprocessors([[maybe_unused]] int capability) {
  return 132;
}

}  // namespace hydrac::cuda
