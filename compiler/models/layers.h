// The layers of a model, from its inputs to what its head reads.
#pragma once
#include "models/blocks.h"

namespace hydrac::models {

ir::Region& add_region(ir::Function&, const std::string& name, int layers);

// What the blocks make: the stream after each of them (slots), and the normed output of the last.
struct Hidden {
  ir::ValueId stream = ir::kNoValue;
  Use last;
};

// From the inputs to the normed output of the last layer. The function's regions are "input", "block" and
// "output"; where some layers' parameters are frozen, there is a loop for each run of layers that are alike,
// also behind passes::rotate_norms. A loop begins at iteration `cut` too.
Hidden hidden_states(const Build&, ir::Function&, int cut = 0);

}  // namespace hydrac::models
