// Keys of a spec that only its data decides.
#pragma once
#include <cstdint>
#include <limits>

#include "diag/diagnostic.h"
#include "spec/spec.h"

namespace hydrac::spec {

struct DataFacts {
  int64_t sequences = 0;                                         // training sequences an epoch
  int64_t validation_batches = 0;                                // micro-batches of the largest set
  int64_t most_sequences = std::numeric_limits<int64_t>::max();  // that training may read, of a mixture
};

// Replaces train.epochs by the train.max_steps that it stands for, and derives and checks what depends on
// that; warns where train.eval_batches asks for more than there is. Whether there was no error.
bool complete_with_data(Spec& spec, const DataFacts& facts, diag::Diagnostics& diagnostics);

}  // namespace hydrac::spec
