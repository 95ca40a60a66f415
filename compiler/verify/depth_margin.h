// Of a mixture of recursions: how near a token is to another depth than the one that the oracle gave it. A
// program that rounds otherwise may give it that one, and is then off by what a pass makes of the token.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/checkpoint/safetensors.h"

namespace hydrac::verify {

// What the oracle is asked to write for it: names of the graph's values as it knows them.
std::vector<std::string> values_for_margin(const ir::Graph& graph);

// In passes, from 0 to 0.5, of the nearest token of the first micro-batch, in any layer. `reference`: the
// oracle's result.safetensors. Absent where the model has no recursions.
std::optional<double> depth_margin(const runtime::SafetensorsReader& reference);

}  // namespace hydrac::verify
