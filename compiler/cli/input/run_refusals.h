// Reasons to refuse a run other than its data and its memory, also for `hydrac check`: each function prints
// and throws Reported.
#pragma once
#include "driver/compile.h"
#include "spec/spec.h"

namespace hydrac::cli {

// A spec may come from anywhere; what it runs is for whoever types the command to say.
void require_own_command(const spec::Spec& spec);

// The cores and the output folder of this machine.
void require_places(const spec::Spec& spec);

// The weights and the adapter that training begins with are there, whole, and those of the model.
void require_weights(const driver::Compiled& compiled);

}  // namespace hydrac::cli
