// Keys that planning chose when a run began, for the run that goes on from it.
#pragma once
#include "spec/spec.h"

namespace hydrac::cli {

// Gives the spec's open keys (spec/fit_keys.h) that decide results (micro_batch_size, loss, optimizer_state)
// the values of the newest checkpoint in the run's folder, so that planning chooses the others alone. Nothing
// where there is no checkpoint, or where it says nothing that the spec takes: the run then says what differs.
void keep_keys_of_checkpoint(spec::Spec& spec);

// Says where the newest checkpoint of a run that is resumed leaves its schedule, as with more
// train.max_steps, and both learning rates. The spec's lengths are known.
void note_changed_rate(const spec::Spec& spec);

}  // namespace hydrac::cli
