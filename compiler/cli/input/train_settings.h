// Settings of a run, from its spec, for whoever trains it.
#pragma once
#include "runtime/app/train_run.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Steps of a range test, 20 a decade.
inline constexpr int64_t kRangeSteps = 121;

// For a spec with an objective: all but the tokens that end a reply, and the encoder.
runtime::ObjectiveSettings objective_settings(const spec::Spec& spec);

// For a spec that is complete (see complete_from_data).
runtime::TrainSettings train_settings(const spec::Spec& spec);

}  // namespace hydrac::cli
