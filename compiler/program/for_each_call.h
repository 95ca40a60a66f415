// A function's calls as they run one after another: sections' loops unrolled.
#pragma once
#include <algorithm>

#include "program/program.h"

namespace hydrac::program {

// Calls visit(section, call, iteration, layer) for every call: `iteration` counts how often its section's
// calls ran before, `layer` is the one it works on.
template <typename Visit>
void for_each_call(const Function& function, const Visit& visit) {
  for (const Section& section : function.sections) {
    const int iterations = std::max(section.layers, 1);
    for (int iteration = 0; iteration < iterations; ++iteration) {
      const int layer = section.reverse ? iterations - 1 - iteration : iteration;
      for (const Call& call : section.calls) visit(section, call, iteration, layer);
    }
  }
}

}  // namespace hydrac::program
