// Keys that planning chose when a run began, for the run that goes on from it.
#pragma once
#include "spec/spec.h"

namespace hydrac::cli {

// Sets the spec's open keys (spec/fit_keys.h) that decide results (micro_batch_size, loss, optimizer_state)
// to those of the newest checkpoint in the run's folder, so that planning chooses only the others. No effect
// without a checkpoint, or if the spec cannot take its values: the run then reports the difference.
void keep_keys_of_checkpoint(spec::Spec& spec);

// Prints where the schedule of a resumed run departs from its newest checkpoint's, as with more
// train.max_steps, and both learning rates. The spec's lengths must be known.
void note_changed_rate(const spec::Spec& spec);

}  // namespace hydrac::cli
