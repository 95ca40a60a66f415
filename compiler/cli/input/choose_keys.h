// `optimizations.fit` and `train.micro_batch_size: auto` for the verbs.
#pragma once
#include "passes/log.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Sets the keys that the spec leaves to planning (driver/fit.h), once the data's sizes are known; returns the
// decisions. Prints and throws Reported if optimizations.fit finds nothing that fits. `memory_bytes` is what
// --memory gives, or 0. A GPU that is known by its architecture alone is taken to be this machine's. Planning
// that takes seconds says so on stderr.
passes::Log choose_keys(spec::Spec& spec, int64_t memory_bytes);

}  // namespace hydrac::cli
