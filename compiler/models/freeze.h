// Parameters that do not train: those whose names in a checkpoint match a pattern of train.freeze; with
// adapters all of the model's own. They have no gradient, no moments and no master in 32 bits; where nothing
// below trains, the backward pass ends.
#pragma once
#include <string>
#include <vector>

#include "diag/diagnostic.h"
#include "ir/graph.h"
#include "spec/spec.h"

namespace hydrac::models {

// The tensor's name, with the layer of `slot` in it.
std::string tensor_name(const ir::Value& parameter, const ir::CheckpointPart& part, int slot);

// Whether the spec freezes the slot of a parameter that is no adapter's: its patterns (globs: * ? []) name
// every tensor of it, or there are adapters.
bool is_frozen(const spec::Spec& spec, const ir::Value& parameter, int slot);

// Reports patterns that match no tensor, those that freeze a part of a matrix, and all of them together where
// nothing is left to train.
void check_freeze(const spec::Spec& spec, diag::Diagnostics& diagnostics);

}  // namespace hydrac::models
