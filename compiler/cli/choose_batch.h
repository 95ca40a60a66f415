// `train.micro_batch_size: auto` for the verbs.
#pragma once
#include "spec/spec.h"

namespace hydrac::cli {

// Replaces it by the size that planning finds (driver/choose_batch.h), once the data's sizes are known.
// `memory_bytes` is what --memory gives, or 0. A GPU that is known by its architecture alone is taken to be
// this machine's.
void choose_batch(spec::Spec& spec, int64_t memory_bytes);

}  // namespace hydrac::cli
