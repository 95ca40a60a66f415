// The bytes of the arena that a call touches.
#pragma once
#include <vector>

#include "driver/compile.h"
#include "program/queues.h"

namespace hydrac::driver {

// One for each of the call's arguments, when its section is at `layer`. For a GPU's program.
std::vector<program::Access> accesses(const Compiled& compiled, const program::Call& call, int layer);

}  // namespace hydrac::driver
