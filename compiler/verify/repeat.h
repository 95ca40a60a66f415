// Comparisons of a program with itself, bit for bit: what must not change a result does not.
#pragma once
#include <string>
#include <vector>

#include "verify/training.h"

namespace hydrac::verify {

struct Sameness {
  std::string what;                    // "two runs", "with and without a CUDA graph"
  size_t compared = 0;                 // losses, norms, gradients, parameters: a tensor each
  std::vector<std::string> differing;  // "parameter attn.qkv.weight"
  bool passed() const { return compared > 0 && differing.empty(); }
};

// Compares every bit of two trainings on the same batches: each step's loss, gradient norm, learning rate and
// loss scale, the first gradients, the final parameters.
Sameness compare_bits(std::string what, const Training& a, const Training& b);

}  // namespace hydrac::verify
