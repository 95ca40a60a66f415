// Random batches that the program and the oracle train on.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/data/batch.h"
#include "spec/spec.h"

namespace hydrac::verify {

// micro_batches[s][m] is micro-batch m of optimizer step s, random: tokens, targets (some of them ignored),
// features. `before`: steps that the run has done already, which decide the sequence length of a warm-up.
using Batches = std::vector<std::vector<runtime::Batch>>;
Batches random_batches(const spec::Spec& spec, int64_t steps, uint64_t seed, int64_t before = 0);

// 1 / targets that count in all micro-batches of one step, as the training loop passes it.
float inverse_count(const std::vector<runtime::Batch>& step);

}  // namespace hydrac::verify
