// Fills in what follows from other keys.
#pragma once
#include "spec/reader/draft.h"

namespace hydrac::spec {

// Gives every derived key that nobody wrote its value (keys.def says which in words), and notes which keys
// hold what they would hold anyway. Keys that depend on broken ones become broken.
void resolve(Draft& draft);

// The part of it that waits for train.max_steps, where train.epochs stands for that.
void resolve_scheduler(Draft& draft);

// Comes before that: shortens schedules that a max_steps or epochs of the command line leaves no room for,
// with a warning.
void shorten_schedule(Draft& draft);

}  // namespace hydrac::spec
