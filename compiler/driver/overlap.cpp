#include "driver/overlap.h"

#include <algorithm>

#include "driver/floor.h"
#include "program/cost.h"
#include "targets/target.h"

namespace hydrac::driver {

bool overlaps_sums(const Compiled& c, double flop, int64_t bytes, passes::Log& log) {
  constexpr double kLeastShare = 0.05;
  const targets::Target& target = *targets::find(c.spec.target);
  const double flops = 0.6 * peaks_of(target, c.spec.optimizations.precision).flops;
  const auto ranks = static_cast<double>(c.spec.parallel.data);
  const double sums = seconds_over_links(target, 2 * (ranks - 1) / ranks * static_cast<double>(bytes));
  if (flops == 0 || sums == 0 || sums >= kLeastShare * flop / flops) return true;
  log.push_back({"ranks",
                 "gradients are summed over ranks before the update: beside the backward pass its matmuls "
                 "would lose more than that takes"});
  return false;
}

double flop_of_micro_batch(const Compiled& c) {
  double flop = 0;
  for (const ir::Region& region : c.graph.function("micro_step").regions)
    for (const ir::Node& node : region.nodes)
      flop += std::max(region.layers, 1) * program::cost_of(c.graph, node).flop;
  return flop;
}

double flop_of_ops(const Compiled& c) {
  double flop = 0;
  for (const ir::Region& region : c.graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      const int times = std::max(region.layers, 1);
      if (node.op == ir::Op::linear)
        flop += times * 2 *
                static_cast<double>(element_count(c.graph.value(node.outputs[0]).shape) *
                                    c.graph.value(node.inputs[1]).shape[1].size);
      if (node.op == ir::Op::gemm || node.op == ir::Op::attention || node.op == ir::Op::attention_backward)
        flop += times * program::cost_of(c.graph, node).flop;
    }
  }
  return flop;
}

int64_t bytes_of_gradients(const Compiled& c) {
  int64_t bytes = 0;
  for (const ir::Value& value : c.graph.values)
    if (value.role == ir::Role::gradient && !value.view)
      bytes += element_count(value.shape) * value.slots * size_of(value.dtype);
  return bytes;
}

}  // namespace hydrac::driver
