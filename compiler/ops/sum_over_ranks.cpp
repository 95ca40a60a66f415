// Sum of x over the ranks that share layers: a linear layer's output where each has some of its inputs, and
// the gradient of its input where each has some of its outputs. The nodes behind it are the same on all
// ranks, so the gradient of a rank's x is that of the sum.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/op.h"

namespace hydrac::ops {

Use sum_over_ranks(RegionBuilder& b, Use x, int64_t ranks, const std::string& name) {
  return b.emit(ir::Op::sum_over_ranks, {x}, name, b.shape(x), {{"ranks", ranks}});
}

namespace {

void sum_over_ranks_gradient(Gradient& g, const ir::Node& node) {
  g.contribute(node.inputs[0], *g.of(node.outputs[0]));
}

// As of all_reduce.
Cost sum_over_ranks_cost(const ir::Graph& graph, const ir::Node& node) {
  return op_info(ir::Op::all_reduce).cost(graph, node);
}

// Inputs are the ranks' tensors.
void sum_over_ranks_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                              std::vector<Tensor64>& out) {
  op_info(ir::Op::all_reduce).reference(node, in, out);
}

}  // namespace

extern const OpInfo kSumOverRanks{.op = ir::Op::sum_over_ranks,
                                  .formula = "y = sum over ranks of x",
                                  .inputs = {"x"},
                                  .outputs = {"y"},
                                  .gradient = sum_over_ranks_gradient,
                                  .cost = sum_over_ranks_cost,
                                  .reference = sum_over_ranks_reference};

}  // namespace hydrac::ops
