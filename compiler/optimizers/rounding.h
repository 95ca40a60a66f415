// Stochastic rounding of what an update stores in bf16: parameters, moments. Rounding to nearest would lose
// every change smaller than half a bf16 ulp, step after step. Stochastic rounding keeps its expected value
// (Gupta et al., Deep Learning with Limited Numerical Precision, 2015). The noise depends only on the seed,
// the step and the element, so a repeated or resumed run is bit-identical on any GPU.
#pragma once
#include <cstdint>

#include "ir/type.h"
#include "spec/spec.h"

namespace hydrac::optimizers {

// Element i of a section of the pack (models/parameters.h), row-major, is rounded with
// random_16_bits(random_key(seed, step, kRoundingSite) + rounding_stream(section, tensor), i), where `step`
// counts optimizer steps. Sites of dropout are smaller.
inline constexpr int64_t kRoundingSite = int64_t{1} << 30;

// Tensor 0 are the parameters, 1 and 2 the moments.
inline int64_t rounding_stream(int64_t section, int64_t tensor) {
  return section * 3 + tensor;
}

// True if an update rounds something stochastically.
bool rounds_stochastically(const spec::Spec& spec);

}  // namespace hydrac::optimizers
