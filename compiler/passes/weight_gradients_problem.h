// A "weight_gradients" node as its kernel knows it.
#pragma once
#include "cuda/matmul/weight_gradients.h"
#include "ir/graph.h"

namespace hydrac::passes {

// `node`: d_y and x of each gradient are its inputs, the gradients its first outputs.
cuda::WeightGradientsProblem weight_gradients_problem(const ir::Graph& graph, const ir::Node& node,
                                                      cuda::Chip chip);

}  // namespace hydrac::passes
