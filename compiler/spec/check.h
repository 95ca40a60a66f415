// Values that contradict each other or ask a target for what it cannot do, and advice. What the rules are:
// kinds.def.
#pragma once
#include "spec/draft.h"

namespace hydrac::spec {

// Refuses targets that hydrac does not know. Comes before resolve, which asks the target.
void check_target_name(Draft& draft);

// All other checks, on a resolved draft. Keys that are broken already are left alone.
void check(Draft& draft);

// The parts of check(), one file each.
void check_model(Draft& draft);             // check_model.cpp: shapes
void check_run(Draft& draft);               // check_run.cpp: schedule, data, folders
void check_schedule(Draft& draft);          // a part of it, which waits for the data where train.epochs does
void check_curriculum(Draft& draft);        // check_curriculum.cpp: easier data first
void check_curriculum_steps(Draft& draft);  // a part of it, which waits as check_schedule() does
void check_mix(Draft& draft);               // check_mix.cpp: several sources and validation sets
void check_tensor(Draft& draft);            // check_tensor.cpp: ranks that share layers
void check_fetched(Draft& draft);           // check_fetched.cpp: weights that layers fetch
void check_objective(Draft& draft);         // check_objective.cpp: replies that are sampled
void check_preferences(Draft& draft);       // check_preferences.cpp: pairs that are learned from
void check_sequence_warmup(Draft& draft);   // check_sequence_warmup.cpp: rows that are cut at first
void check_mod(Draft& draft);               // check_mod.cpp: layers that compute some tokens
void check_moe(Draft& draft);               // check_moe.cpp: layers of several mlps
void check_target(Draft& draft);            // check_target.cpp: what the target can do
void advise(Draft& draft);                  // advice.cpp: warnings
void advise_no_effect(Draft& draft);        // no_effect.cpp: a part of them

}  // namespace hydrac::spec
