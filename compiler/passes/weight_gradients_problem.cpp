#include "passes/weight_gradients_problem.h"

#include "ops/shapes.h"

namespace hydrac::passes {

cuda::WeightGradientsProblem weight_gradients_problem(const ir::Graph& graph, const ir::Node& node,
                                                      cuda::Chip chip) {
  const ir::Value& d_y = graph.value(node.inputs[0]);
  cuda::WeightGradientsProblem problem{.chip = chip,
                                       .is_bf16 = d_y.dtype == ir::DType::bf16,
                                       .rows = element_count(ops::leading(d_y.shape)),
                                       .count = static_cast<int>(node.inputs.size() / 2),
                                       .m = {},
                                       .n = {}};
  for (int i = 0; i < problem.count; ++i) {
    problem.m[i] = graph.value(node.inputs[2 * i]).shape.back().size;
    problem.n[i] = graph.value(node.inputs[2 * i + 1]).shape.back().size;
  }
  return problem;
}

}  // namespace hydrac::passes
