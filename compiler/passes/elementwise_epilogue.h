// Epilogues of matmuls that compute each element from that of the matmul and from its column alone.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace hydrac::passes {

// `node`: a "fused_matmul" or the epilogue of one. The operands of its body that it writes, in the order of
// its stores, where all of these lie in memory as the matmul would and the body does nothing else than
// compute them from the matmul at the same place, from vectors of the columns, and from single numbers.
// Empty where it also reads matrices or statistics of rows, sums over rows, asks where it is, or works on
// columns that are not each other's.
std::vector<int> elementwise_outputs(const ir::Graph& graph, const ir::Node& node);

}  // namespace hydrac::passes
