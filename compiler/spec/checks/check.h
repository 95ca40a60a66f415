// Values that contradict each other or ask a target for what it cannot do, and advice. What the rules are:
// kinds.def.
#pragma once
#include "spec/reader/draft.h"

namespace hydrac::spec {

// Refuses targets that hydrac does not know. Comes before resolve, which asks the target.
void check_target_name(Draft& draft);

// All other checks, on a resolved draft. Keys that are broken already are left alone.
void check(Draft& draft);

// The parts of check(), one file each.
void check_model(Draft& draft);             // model.cpp: shapes
void check_run(Draft& draft);               // run.cpp: schedule, data, folders
void check_schedule(Draft& draft);          // a part of it, which waits for the data where train.epochs does
void check_curriculum(Draft& draft);        // curriculum.cpp: easier data first
void check_curriculum_steps(Draft& draft);  // a part of it, which waits as check_schedule() does
void check_mix(Draft& draft);               // mix.cpp: several sources and validation sets
void check_tensor(Draft& draft);            // tensor.cpp: ranks that share layers
void check_fetched(Draft& draft);           // fetched.cpp: weights that layers fetch
void check_objective(Draft& draft);         // objective.cpp: replies that are sampled
void check_preferences(Draft& draft);       // preferences.cpp: pairs that are learned from
void check_sequence_warmup(Draft& draft);   // sequence_warmup.cpp: rows that are cut at first
void check_mod(Draft& draft);               // mod.cpp: layers that compute some tokens
void check_moe(Draft& draft);               // moe.cpp: layers of several mlps
void check_target(Draft& draft);            // target.cpp: what the target can do
void advise(Draft& draft);                  // advice.cpp: warnings
void advise_no_effect(Draft& draft);        // no_effect.cpp: a part of them

}  // namespace hydrac::spec
