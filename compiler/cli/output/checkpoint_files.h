// Files of a checkpoint beside tensors, and the keys of a spec that decide a run's results.
#pragma once
#include <map>
#include <string>

#include "spec/spec.h"

namespace hydrac::cli {

// PEFT's adapter_config.json of a spec with an adapter.
std::string adapter_config_json(const spec::Spec& spec);

// Every key of a resolved spec, as "train.seed" -> "1337"; of a user's function what it computes.
std::map<std::string, std::string> all_keys(const spec::Spec& spec);

// The subset of these keys that must be equal for a run to be resumed. The others say only where results go,
// how often something is reported or saved, how the same results are computed, and how long the run is.
std::map<std::string, std::string> result_keys(const spec::Spec& spec);

}  // namespace hydrac::cli
