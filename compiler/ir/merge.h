// Merging two bodies: the second one's loads of what the first one stores become the expressions stored.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace hydrac::ir {

// One fused node that computes `first` and then `second`. They run over the same rows, and `second` reads no
// sum over rows of `first`. nullopt if a load of `second` matches no store of `first`.
std::optional<Node> merged(const Node& first, const Node& second);

}  // namespace hydrac::ir
