// What a target's products reach at best.
#pragma once
#include "spec/spec.h"

namespace hydrac::targets {

// Flop a second, dense, in the precision of a spec, on its target; 0 where that is not known.
double peak_flops(const spec::Spec& spec);

}  // namespace hydrac::targets
