// The batch of an optimizer step: sequences in memory at once, times the micro-batches that are accumulated.
#pragma once
#include <vector>

#include "spec/reader/draft.h"

namespace hydrac::spec {

// Fills in what follows of the four keys of a batch, and reports where they contradict each other. The
// micro-batch stays `auto` where nothing but the plan can tell it (waits_for_plan()).
void resolve_batch(Draft& draft);

// Sizes of a micro-batch that divide the spec's global batch, in ascending order, and leave a number of
// micro-batches that train.gradient_accumulation_steps takes.
std::vector<int64_t> micro_batch_sizes(const SpecKeys& spec);

// The spec as one process trains it, which accumulates what the ranks would have computed: the same results.
void train_in_one_process(SpecKeys& spec);

// Sets the micro-batch to one of these sizes, and gradient_accumulation_steps with it.
void set_micro_batch(SpecKeys& spec, int64_t size);

}  // namespace hydrac::spec
