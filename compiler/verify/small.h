// A spec at the size of a test: what decides which kernels are made stays, what only costs time shrinks.
#pragma once
#include <string>
#include <vector>

#include "spec/spec.h"

namespace hydrac::verify {

// Overrides ("model.num_hidden_layers=2") that shrink a resolved spec, in a fixed order and a function of the
// spec alone; only what becomes smaller, or is not known before the data is read.
// - At most 2 layers, sequences of 128 and 2 of them in a micro-batch, 2 micro-batches a step.
// - At most 2 key-value heads, each with as many query heads as before (at most 8), of the same width. The
//   model's and the mlp's width shrink with the heads; an odd width stays odd.
// - At most 1031 tokens, or 1024 where the vocabulary needed no padding; without a vocabulary_size 65 for
//   characters and 256 for bytes. 5 features where the CSV's columns would say.
// - At most 1 step of warmup, so that the steps compared move the weights; 2 of sequences that grow, from a
//   quarter.
// Norms, positions, biases, dropout, tying, activation, head, loss kernel, attention, precision,
// recomputation, optimizer and schedule stay.
std::vector<std::string> small_overrides(const spec::Spec& spec);

}  // namespace hydrac::verify
